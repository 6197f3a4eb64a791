#include "reel/plan/imbalance.h"

#include <algorithm>
#include <numeric>

#include "reel/base/sized.h"

namespace reel::plan {

double Tiles::total() const { return std::accumulate(work.begin(), work.end(), 0.0); }

std::vector<double> Tiles::ranks() const {
  std::vector<double> sums(sized(ulysses * ring), 0.0);
  for (int u = 0; u < ulysses; ++u) {
    for (int i = 0; i < ring; ++i) {
      for (int j = 0; j < ring; ++j) sums[sized(i * ulysses + u)] += at(u, i, j);
    }
  }
  return sums;
}

Tiles tiles(const Counts& work, const Partition& partition) {
  check(partition, work);
  const int ring = partition.ring;
  Tiles out{partition.ulysses, ring, {}};
  out.work.assign(sized(partition.ulysses * ring * ring), 0.0);
  const double fixed = work.cost.fixed * static_cast<double>(work.batch);
  std::vector<std::uint32_t> keys(sized(ring));
  for (int u = 0; u < partition.ulysses; ++u) {
    const Indices row_place = bins_of(partition.rows[sized(u)], work.rows);
    const Indices column_place = bins_of(partition.keys[sized(u)], work.columns);
    for (const std::int32_t head : partition.heads[sized(u)]) {
      for (std::int64_t row = 0; row < work.rows; ++row) {
        if (ring == 1) {  // a whole plan of 40 heads x 1184 x 1184 blocks takes 1.1 ms instead of 5.7
          keys[0] = work.row_keys[sized(head * work.rows + row)];
        } else {
          std::fill(keys.begin(), keys.end(), 0);
          const std::uint16_t* of_row = work.keys_of(head, row);
          for (std::size_t c = 0; c < column_place.size(); ++c) keys[sized(column_place[c])] += of_row[c];
        }
        const double per_key = work.cost.per_key * static_cast<double>(work.row_scale[sized(row)]);
        double* tile = &out.work[sized((u * ring + row_place[sized(row)]) * ring)];
        for (std::size_t j = 0; j < keys.size(); ++j) {
          if (keys[j] != 0) tile[j] += fixed + per_key * keys[j];
        }
      }
    }
  }
  return out;
}

double rho(const Tiles& tiles) {
  const double mean = tiles.total() / (tiles.ulysses * tiles.ring);
  if (mean <= 0) return 1;
  double time = 0;
  for (int step = 0; step < tiles.ring; ++step) {
    double slowest = 0;
    for (int u = 0; u < tiles.ulysses; ++u) {
      for (int i = 0; i < tiles.ring; ++i) slowest = std::max(slowest, tiles.at(u, i, (i + step) % tiles.ring));
    }
    time += slowest;
  }
  return time / mean;
}

double rho_no_barrier(const Tiles& tiles) {
  const double mean = tiles.total() / (tiles.ulysses * tiles.ring);
  if (mean <= 0) return 1;
  const std::vector<double> sums = tiles.ranks();
  return *std::max_element(sums.begin(), sums.end()) / mean;
}

}  // namespace reel::plan
