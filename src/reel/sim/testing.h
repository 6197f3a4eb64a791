// Workloads by hand, for tests.
#pragma once

#include <string>
#include <vector>

#include "reel/cost/cluster.h"
#include "reel/sim/workload.h"

namespace reel::sim {

inline cost::Cluster test_cluster(const std::string& name = "h100-ndr400") {
  return cost::load_cluster(std::string(REEL_SOURCE_DIR "/clusters/") + name + ".toml");
}

inline constexpr Picoseconds kNanosecond = 1000;

// Every rank has a program of its own; a slot's calls take `nanoseconds` for every group.
class HandMade {
 public:
  HandMade(std::int32_t ranks, std::int32_t slots) {
    w.slots = slots;
    w.program_of.resize(static_cast<std::size_t>(ranks));
    for (std::int32_t r = 0; r < ranks; ++r) w.program_of[static_cast<std::size_t>(r)] = r;
    w.programs.resize(static_cast<std::size_t>(ranks));
    for (Program& program : w.programs) {
      program.blocks.resize(1);
      program.order = {{0, -1}};
    }
    w.group_of.assign(static_cast<std::size_t>(ranks * slots), -1);
  }

  void group(std::int32_t slot, const std::vector<std::int32_t>& ranks) {
    for (const std::int32_t r : ranks) bind(r, slot);
    w.groups.push_back(
        {0, static_cast<std::int32_t>(w.members.size()), static_cast<std::int32_t>(ranks.size()), false});
    w.members.insert(w.members.end(), ranks.begin(), ranks.end());
  }
  void channel(std::int32_t out, std::int32_t in, std::int32_t from, std::int32_t to) {
    bind(from, out);
    bind(to, in);
    w.groups.push_back({0, static_cast<std::int32_t>(w.members.size()), 2, true});
    w.members.push_back(from);
    w.members.push_back(to);
  }

  Task& add(std::int32_t rank, const Task& task) {
    auto& tasks = w.programs[static_cast<std::size_t>(rank)].blocks[0].tasks;
    tasks.push_back(task);
    return tasks.back();
  }
  Task& compute(std::int32_t rank, const std::string& name, std::int64_t nanoseconds, std::uint8_t waits = 0) {
    Task task;
    task.name = named(name);
    task.duration = nanoseconds * kNanosecond;
    task.waits = waits;
    return add(rank, task);
  }
  Task& call(std::int32_t rank, const std::string& name, Kind kind, Stream stream, std::int32_t slot,
             std::int64_t nanoseconds, std::uint8_t waits = 0, std::int32_t slowdown = 1000) {
    Task task;
    task.kind = kind;
    task.stream = stream;
    task.category = stream == Stream::kCompute ? Category::kTensor : stream_category(stream);
    task.name = named(name);
    task.waits = waits;
    task.call = static_cast<std::int32_t>(w.calls.size());
    w.calls.push_back({slot, 0, {{nanoseconds * kNanosecond, {slowdown, slowdown, slowdown}}}});
    return add(rank, task);
  }

  Workload w;

 private:
  void bind(std::int32_t rank, std::int32_t slot) {
    w.group_of[static_cast<std::size_t>(rank * w.slots + slot)] = static_cast<std::int32_t>(w.groups.size());
  }
  std::int32_t named(const std::string& name) {
    w.names.push_back(name);
    return static_cast<std::int32_t>(w.names.size()) - 1;
  }
};

}  // namespace reel::sim
