#include "reel/plan/group_work.h"

#include <algorithm>
#include <limits>

#include "reel/base/sized.h"

namespace reel::plan {

namespace {

// Calls add(position, row, fixed cost) for every visit of a head's row to keys.
void add_visits(const Counts& work, const Indices& heads, const Indices& key_place, int ring, auto&& add) {
  if (work.cost.fixed <= 0) return;
  const auto fixed = static_cast<float>(work.cost.fixed * static_cast<double>(work.batch));
  const auto words = sized(work.words), positions = sized(ring);
  std::vector<std::uint64_t> place(positions * words, 0);  // columns of each position
  for (std::size_t c = 0; c < key_place.size(); ++c)
    place[sized(key_place[c]) * words + c / 64] |= std::uint64_t{1} << (c % 64);
  for (const std::int32_t head : heads) {
    for (std::int64_t row = 0; row < work.rows; ++row) {
      const std::uint64_t* filled = work.filled_of(head, row);
      for (std::size_t j = 0; j < positions; ++j) {
        std::uint64_t any = 0;
        for (std::size_t w = 0; w < words; ++w) any |= filled[w] & place[j * words + w];
        if (any != 0) add(j, sized(row), fixed);
      }
    }
  }
}

}  // namespace

GroupWork::GroupWork(const Counts& work, const Indices& heads, bool alike) : work_(work), heads_(heads), alike_(alike) {
  // Reading the counts of all heads is most of the time of a plan: 16 bits add twice as fast, and nearly always
  // suffice.
  const auto largest = static_cast<std::uint64_t>(work.column_tokens.front()) * static_cast<std::uint64_t>(work.batch);
  if (heads.size() * largest <= std::numeric_limits<std::uint16_t>::max()) {
    add_heads<std::uint16_t>();
  } else {
    add_heads<std::uint32_t>();
  }
}

template <class Sum>
void GroupWork::add_heads() {
  const auto rows = sized(work_.rows), columns = sized(work_.columns);
  columns_ = {work_.columns, 1, std::vector<float>(columns, 0.0f)};
  work_of_.resize(rows * columns);
  by_column_.resize(rows * columns);
  std::vector<Sum> sum(columns);
  for (std::int64_t row = 0; row < work_.rows; ++row) {
    std::fill(sum.begin(), sum.end(), Sum{0});
    for (const std::int32_t head : heads_) {
      const std::uint16_t* keys = work_.keys_of(head, row);
      for (std::size_t c = 0; c < columns; ++c) sum[c] = static_cast<Sum>(sum[c] + keys[c]);
    }
    const float per_key = static_cast<float>(work_.cost.per_key) * work_.row_scale[sized(row)];
    float* out = work_of_.data() + sized(row) * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      out[c] = per_key * static_cast<float>(sum[c]);
      columns_.weight[c] += out[c];
      by_column_[c * rows + sized(row)] = out[c];
    }
  }
}

Items GroupWork::rows_by_keys(const Indices& key_place, int ring) const {
  const auto rows = sized(work_.rows), columns = sized(work_.columns);
  Items items{work_.rows, ring, std::vector<float>(sized(ring) * rows, 0.0f), alike_};
  for (std::size_t c = 0; c < columns; ++c) {
    const float* of_column = by_column_.data() + c * rows;
    float* out = items.weight.data() + sized(key_place[c]) * rows;
    for (std::size_t row = 0; row < rows; ++row) out[row] += of_column[row];
  }
  add_visits(work_, heads_, key_place, ring,
             [&](std::size_t j, std::size_t row, float fixed) { items.weight[j * rows + row] += fixed; });
  return items;
}

Items row_sums(const Counts& work, const Indices& heads, const Indices& key_place, int ring) {
  const auto rows = sized(work.rows);
  Items items{work.rows, 1, std::vector<float>(rows, 0.0f)};
  for (const std::int32_t head : heads) {
    const std::uint32_t* keys = work.row_keys.data() + sized(head) * rows;
    for (std::size_t row = 0; row < rows; ++row)
      items.weight[row] += static_cast<float>(work.cost.per_key) * work.row_scale[row] * static_cast<float>(keys[row]);
  }
  add_visits(work, heads, key_place, ring,
             [&](std::size_t, std::size_t row, float fixed) { items.weight[row] += fixed; });
  return items;
}

Items GroupWork::columns_by_rows(const Indices& row_place, int ring) const {
  const auto columns = sized(work_.columns);
  Items items{work_.columns, ring, std::vector<float>(sized(ring) * columns, 0.0f), alike_};
  for (std::size_t row = 0; row < row_place.size(); ++row) {
    const float* of_row = work_of_.data() + row * columns;
    float* out = items.weight.data() + sized(row_place[row]) * columns;
    for (std::size_t c = 0; c < columns; ++c) out[c] += of_row[c];
  }
  return items;
}

}  // namespace reel::plan
