// The meter: what this rank sent to others, by layer, phase, kind of exchange and group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "reel/base/work.h"

namespace reel::comm {

class Comm;

class Traffic {
 public:
  struct Row {
    std::int64_t calls = 0, bytes_sent = 0;
  };
  using Kind = work::Exchange::Kind;
  using Key = std::tuple<int, Phase, Kind, std::string>;  // the last is the group

  void add(int layer, Phase phase, Kind kind, const std::string& group, std::int64_t bytes) {
    Row& row = rows_[{layer, phase, kind, group}];
    ++row.calls;
    row.bytes_sent += bytes;
  }
  void clear() { rows_.clear(); }
  const std::map<Key, Row>& rows() const { return rows_; }
  std::int64_t bytes_sent() const;
  // By exchanges of one kind in all layers; in one phase where `phase` is given.
  std::int64_t bytes_sent(Kind kind, const Phase* phase = nullptr) const;

 private:
  std::map<Key, Row> rows_;
};

// {"ranks": [{"rank": 0, "rows": [{"layer": 0, "phase": "forward", "operation": "all_to_all", "group": "sequence",
// "calls": 1, "bytes_sent": 512}]}]}, on every rank. All ranks of `world` call it. Belongs to no layer: "layer": null.
std::string traffic_json(Comm& world);

}  // namespace reel::comm
