#include "reel/sim/schedule.h"

#include <algorithm>
#include <map>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::sim {

namespace {

Code prepare(const std::vector<Task>& tasks, std::int32_t source) {
  Code code;
  code.tasks = tasks;
  code.source = source;
  code.before.reserve(tasks.size());
  std::array<std::int32_t, kStreams> count{};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    code.before.push_back(count);
    code.of_stream[at(tasks[i].stream)].push_back(static_cast<std::int32_t>(i));
    ++count[at(tasks[i].stream)];
  }
  return code;
}

// Where a block leaves compute with a collective beside it.
struct Beside {
  bool opens = false;   // a call on kData may still run at its end
  bool closes = false;  // compute waits for kData, no call follows
  bool any = false;     // has tasks on kData
  bool early = false;   // ... that wait for no compute, so that they could run beside blocks before
};

Beside beside(const Block& block) {
  Beside result;
  for (const Task& task : block.tasks) {
    if (task.stream == Stream::kData) {
      result.opens = result.any = true;
      result.closes = false;
      if ((task.waits & bit(Stream::kCompute)) == 0) result.early = true;
    }
    if (task.stream == Stream::kCompute && (task.waits & bit(Stream::kData)) != 0)
      result.opens = false, result.closes = true;
  }
  return result;
}

// A block with its compute stream as one task, where that is the same.
struct Merged {
  bool can = false;
  std::uint8_t links = 0;  // bits of those that its calls use
  Breakdown sum{};
  std::vector<Task> tasks;     // one on the compute stream
  const Code* code = nullptr;  // shared by all steps of the block
};

Merged merge(const Workload& w, const Folding& folding, const Meetings& meetings, std::int32_t c, const Block& block) {
  Merged merged;
  const auto computes = [](const Task& task) { return task.stream == Stream::kCompute; };
  const auto first = std::find_if(block.tasks.begin(), block.tasks.end(), computes);
  const auto end = std::find_if(block.tasks.rbegin(), block.tasks.rend(), computes).base();
  if (first == block.tasks.end()) return merged;
  const double slow = w.slow.empty() ? 1 : w.slow[at(folding.representative[at(c)])];
  // Inside, time is counted from the start of the first task; rings that stay within the class are followed, too.
  constexpr std::uint8_t kInside = bit(Stream::kCompute) | bit(Stream::kRingSend) | bit(Stream::kRingReceive);
  Picoseconds now = 0;                                      // of the compute stream
  std::array<Picoseconds, kStreams> ends{};                 // of the streams' last tasks
  std::vector<std::pair<Picoseconds, Picoseconds>> moving;  // when the ring did
  Picoseconds sending = -1, length = 0;  // a send that waits for its receive: ready when, and how long it takes
  Link way = Link::kNone;                // of the ring
  std::array<Picoseconds, 3> taken{}, ringing{};  // by link: until when collectives had it, and the ring
  for (auto task = first; task != end; ++task) {
    if ((task != first && (task->waits & ~kInside) != 0) || task->lag != 0) return merged;
    Picoseconds ready = computes(*task) ? now : ends[at(task->stream)];
    for (const Stream s : {Stream::kCompute, Stream::kRingSend, Stream::kRingReceive}) {
      if (task != first && (task->waits & bit(s)) != 0)
        ready = std::max(ready, s == Stream::kCompute ? now : ends[at(s)]);
    }
    if (computes(*task)) {
      Picoseconds idle = ready - now;
      for (std::size_t i = moving.size(); idle > 0 && i > 0; --i) {
        const auto& [from, to] = moving[i - 1];
        const Picoseconds moved = std::max<Picoseconds>(0, std::min(to, ready) - std::max(from, now));
        merged.sum[sized(Category::kContext)] += moved;
        idle -= moved;
      }
      merged.sum[sized(Category::kBubble)] += idle;
      Picoseconds time = 0;
      if (task->kind == Kind::kCompute) {
        time = compute_time(*task, slow);
      } else {
        const std::int32_t meeting = meetings.of(c, w.calls[at(task->call)].slot);
        if (task->kind != Kind::kCollective || meetings.ends[at(meeting)] != 1) return merged;
        const CallCost& cost = call_cost(w, folding, c, *task);
        const auto link = sized(cost.link);
        if (cost.load > 0) {
          if (ringing[link] > ready) return merged;  // they would share the link
          merged.links |= bit(cost.link);
          taken[link] = ready + cost.duration;
        }
        time = cost.duration;
      }
      merged.sum[sized(task->category)] += time;
      now = ready + time;
    } else if (task->stream == Stream::kRingSend && sending < 0) {
      const std::int32_t slot = w.calls[at(task->call)].slot;
      const Group& ring = w.groups[at(w.group(folding.representative[at(c)], slot))];
      const std::int32_t peer = w.members[at(ring.first + 1)];
      if (folding.class_of[at(peer)] != c) return merged;
      sending = ready;
      length = call_cost(w, folding, c, *task).duration;
      way = call_cost(w, folding, c, *task).link;
      merged.links |= bit(way);
    } else if (task->stream == Stream::kRingReceive && sending >= 0) {
      const Picoseconds start = std::max(ready, sending), stop = start + length;
      if (taken[sized(way)] > start) return merged;
      ringing[sized(way)] = stop;
      moving.emplace_back(start, stop);
      ends[at(Stream::kRingSend)] = ends[at(Stream::kRingReceive)] = stop;
      sending = -1;
    } else {
      return merged;
    }
  }
  if (sending >= 0 || ends[at(Stream::kRingReceive)] > now) return merged;
  Task one = *first;
  one.kind = Kind::kCompute;
  one.call = -1;
  one.duration = now;
  merged.tasks.assign(block.tasks.begin(), first);
  merged.tasks.push_back(one);
  merged.tasks.insert(merged.tasks.end(), end, block.tasks.end());
  merged.can = true;
  return merged;
}

// `last` is the plan's last step where that is one task which may still grow.
void add_merged(Schedule& plan, Merged& merged, Code*& last, std::int32_t micro_batch) {
  const bool alone = merged.tasks.size() == 1;
  if (alone && last != nullptr && merged.tasks.front().waits == 0) {
    for (std::size_t i = 0; i < kCategories; ++i) last->breakdown[i] += merged.sum[i];
    last->tasks.front().duration += merged.tasks.front().duration;
    return;
  }
  last = nullptr;
  if (merged.code == nullptr || alone) {
    plan.codes.push_back(std::make_unique<Code>(prepare(merged.tasks, -1)));
    Code& code = *plan.codes.back();
    code.merged = true;
    code.breakdown = merged.sum;
    merged.code = &code;
    if (alone) last = &code;
  }
  plan.add(merged.code, micro_batch);
}

constexpr std::array kReceives = {Stream::kReceiveForward, Stream::kReceiveBackward};
constexpr std::array kSends = {Stream::kSendForward, Stream::kSendBackward};

const Task* first_compute(const Block& block) {
  const auto first = std::find_if(block.tasks.begin(), block.tasks.end(),
                                  [](const Task& task) { return task.stream == Stream::kCompute; });
  return first == block.tasks.end() ? nullptr : &*first;
}

// Which links the messages of a pipeline use that may be under way while a block computes.
class Messages {
 public:
  Messages(const Workload& w, const Folding& folding, std::int32_t c, const Program& program) {
    for (const Block& block : program.blocks) {
      const Task* first = first_compute(block);
      for (const Task& task : block.tasks) {
        if (task.call < 0) continue;
        links_[at(task.stream)] |= bit(call_cost(w, folding, c, task).link);
        // A receive between two tasks of compute, the second of which waits for it, is never under way beside any.
        const bool receives = task.stream == kReceives[0] || task.stream == kReceives[1];
        const bool between =
            (task.waits & bit(Stream::kCompute)) != 0 && first != nullptr && (first->waits & bit(task.stream)) != 0;
        if (receives && !between) beside_ |= bit(task.stream);
      }
    }
  }

  std::uint8_t beside(const Block& block) const {
    const Task* first = first_compute(block);
    std::uint8_t links = 0;
    for (const Stream s : kReceives) {
      if ((beside_ & bit(s)) != 0) links |= links_[at(s)];
    }
    for (const Stream s : kSends) {
      if (first != nullptr && (first->waits & bit(s)) == 0) links |= links_[at(s)];
    }
    return links;
  }

 private:
  std::array<std::uint8_t, kStreams> links_{};
  std::uint8_t beside_ = 0;
};

std::int32_t sender_slot(const Workload& w, std::int32_t g) {
  const std::int32_t sender = w.members[at(w.groups[at(g)].first)];
  for (std::int32_t s = 0; s < w.slots; ++s) {
    if (w.group(sender, s) == g) return s;
  }
  REEL_CHECK(false);
  return -1;
}

}  // namespace

Meetings make_meetings(const Workload& w, const Folding& folding) {
  Meetings meetings;
  meetings.slots = w.slots;
  meetings.of_class.assign(at(folding.classes()) * at(w.slots), -1);
  std::map<std::vector<std::int32_t>, std::int32_t> known;
  std::vector<std::int32_t> key;
  for (std::int32_t c = 0; c < folding.classes(); ++c) {
    for (std::int32_t s = 0; s < w.slots; ++s) {
      const std::int32_t g = w.group(folding.representative[at(c)], s);
      if (g < 0) continue;
      const Group& group = w.groups[at(g)];
      key.clear();
      for (std::int32_t i = 0; i < group.count; ++i)
        key.push_back(folding.class_of[at(w.members[at(group.first + i)])]);
      if (!group.channel) {
        std::sort(key.begin(), key.end());
        key.erase(std::unique(key.begin(), key.end()), key.end());
      }
      const auto ends = static_cast<std::int32_t>(key.size());
      // A channel is known by its ends and the sender's slot, any other group by its classes and its slot.
      key.push_back(group.channel ? sender_slot(w, g) : s);
      const auto [entry, fresh] = known.try_emplace(key, static_cast<std::int32_t>(meetings.ends.size()));
      if (fresh) meetings.ends.push_back(ends);
      meetings.of_class[at(c) * at(w.slots) + at(s)] = entry->second;
    }
  }
  return meetings;
}

const CallCost& call_cost(const Workload& w, const Folding& folding, std::int32_t c, const Task& task) {
  const Call& call = w.calls[at(task.call)];
  const std::int32_t g = w.group(folding.representative[at(c)], call.slot);
  return call.costs[at(w.groups[at(g)].variant)];
}

Picoseconds compute_time(const Task& task, double slow) {
  return slow == 1 ? task.duration : std::llround(static_cast<double>(task.duration) * slow);
}

void Schedule::add(const Code* code, std::int32_t micro_batch) {
  ScheduleStep step{code, micro_batch, {}};
  if (!steps.empty()) {
    const ScheduleStep& last = steps.back();
    for (std::size_t s = 0; s < kStreams; ++s)
      step.before[s] = last.before[s] + static_cast<std::int32_t>(last.code->of_stream[s].size());
  }
  steps.push_back(step);
}

Schedule make_schedule(const Workload& w, const Folding& folding, const Meetings& meetings, std::int32_t c,
                       bool merging) {
  const Program& program = w.programs[at(w.program_of[at(folding.representative[at(c)])])];
  Schedule plan;
  struct Prepared {
    Beside beside;
    bool waits = false;  // its compute begins when kData has ended
    Merged merged;
    const Code* code = nullptr;
  };
  const Messages messages(w, folding, c, program);
  std::vector<Prepared> prepared;
  for (const Block& block : program.blocks) {
    Prepared& p = prepared.emplace_back();
    p.beside = beside(block);
    const Task* first = first_compute(block);
    p.waits = first != nullptr && (first->waits & bit(Stream::kData)) != 0;
    if (merging && !p.beside.any) p.merged = merge(w, folding, meetings, c, block);
    if ((p.merged.links & messages.beside(block)) != 0) p.merged.can = false;
  }
  bool open = false;
  Code* last = nullptr;
  for (const Step& step : program.order) {
    Prepared& p = prepared[at(step.block)];
    REEL_CHECK(!p.beside.early || &step == &program.order.front());
    if (p.merged.can && (!open || p.waits)) {
      add_merged(plan, p.merged, last, step.micro_batch);
    } else {
      if (p.code == nullptr) {
        plan.codes.push_back(std::make_unique<Code>(prepare(program.blocks[at(step.block)].tasks, step.block)));
        p.code = plan.codes.back().get();
      }
      plan.add(p.code, step.micro_batch);
      last = nullptr;
    }
    if (p.beside.opens) open = true;
    if (p.beside.closes) open = false;
  }
  return plan;
}

}  // namespace reel::sim
