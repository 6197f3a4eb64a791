#include "reel/sim/timeline.h"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/sim/schedule.h"

namespace reel::sim {

namespace {

enum class State : std::uint8_t { kFinished, kBlocked, kArrived, kRunning };

struct Lane {                        // a stream of a class
  std::int32_t step = 0, index = 0;  // next task: of_stream[index] of the step's code
  std::int32_t done = 0;             // tasks ended
  State state = State::kBlocked;
  Stream blocked_on = Stream::kCompute;
  Picoseconds arrived = 0, start = 0;
  Picoseconds busy = 0;       // time its calls ran, those that have ended
  std::int32_t meeting = -1;  // of the call that runs
};

enum Direction : std::uint8_t { kOut = 1, kIn = 2 };

// Where a rank's loads of a link and direction are summed.
std::size_t wire(Link link, Direction direction) {
  return (link == Link::kNetwork ? 2U : 0U) + (direction == kIn ? 1U : 0U);
}

struct Run {
  const Schedule* plan = nullptr;
  double slow = 1;
  std::array<Lane, kStreams> lanes;
  // of the compute stream
  Picoseconds idle_since = 0, busy_then = 0;
  Picoseconds left = 0, since = 0;  // of the running task
  std::int32_t factor = 1000;
  std::uint32_t version = 0;
  const CallCost* neighbour = nullptr;  // the call that runs on kData
  std::array<std::int32_t, 4> load{};   // of the calls that run, by wire
  ClassTime time;
};

struct End {            // of a call
  std::int32_t of = 0;  // class
  Stream stream = Stream::kCompute;
  std::uint8_t directions = kOut | kIn;
};

struct Present {  // at a meeting's present call
  std::vector<End> ends;
  Picoseconds left = 0, since = 0;  // of its time alone
  Link link = Link::kNone;
  std::int32_t load = 0;
  std::int32_t factor = 0;  // thousandths of the time alone that it takes; 0: it does not run yet
  std::uint32_t version = 0;
};

struct Event {
  Picoseconds time;
  std::int32_t who;  // class whose compute ends, or -1 - meeting
  std::uint32_t version;
  bool operator>(const Event& other) const { return time > other.time; }
};

class Engine {
 public:
  Engine(const Workload& w, const Folding& folding, bool spans)
      : w_(w), folding_(folding), spans_(spans), meetings_(make_meetings(w, folding)), present_(meetings_.ends.size()) {
    make_plans();
  }

  Timeline run() {
    for (std::int32_t c = 0; c < folding_.classes(); ++c) {
      for (int s = 0; s < kStreams; ++s) try_start(c, static_cast<Stream>(s));
    }
    while (true) {
      if (events_.empty() || events_.top().time > now_) {
        if (settle()) continue;
        if (events_.empty()) break;
      }
      const Event event = events_.top();
      events_.pop();
      if (event.who >= 0) {
        if (runs_[at(event.who)].version != event.version) continue;  // its pace has changed since
        now_ = event.time;
        end_task(event.who, Stream::kCompute);
        go_on(event.who, Stream::kCompute);
      } else {
        if (present_[at(-1 - event.who)].version != event.version) continue;
        now_ = event.time;
        end_meeting(-1 - event.who);
      }
    }
    check_finished();
    for (Run& run : runs_) result_.classes.push_back(run.time);
    for (std::size_t c = 0; c < runs_.size(); ++c) {
      if (runs_[c].time.end > result_.end)
        result_.end = runs_[c].time.end, result_.critical = static_cast<std::int32_t>(c);
    }
    return std::move(result_);
  }

 private:
  void make_plans() {
    runs_.resize(at(folding_.classes()));
    const bool merge = folding_.merge && !spans_;
    std::map<std::int32_t, const Schedule*> of_program;
    for (std::int32_t c = 0; c < folding_.classes(); ++c) {
      const std::int32_t rank = folding_.representative[at(c)];
      const std::int32_t program = w_.program_of[at(rank)];
      Run& run = runs_[at(c)];
      if (!w_.slow.empty()) run.slow = w_.slow[at(rank)];
      const Schedule*& shared = of_program[program];
      if (merge || shared == nullptr) {
        plans_.push_back(std::make_unique<Schedule>(make_schedule(w_, folding_, meetings_, c, merge)));
        shared = plans_.back().get();
      }
      run.plan = shared;
    }
  }

  // The stream's next task; null at its end.
  const Task* next(Run& run, Lane& lane, std::size_t s) {
    const auto& steps = run.plan->steps;
    while (at(lane.step) < steps.size()) {
      const auto& tasks = steps[at(lane.step)].code->of_stream[s];
      if (at(lane.index) < tasks.size()) return &steps[at(lane.step)].code->tasks[at(tasks[at(lane.index)])];
      ++lane.step;
      lane.index = 0;
    }
    return nullptr;
  }

  // The first stream that the task still waits for; kStreams: none.
  std::size_t obstacle(const Run& run, const Lane& lane, std::size_t s, const Task& task) const {
    if (task.waits == 0 && task.lag == 0) return kStreams;
    const ScheduleStep& step = run.plan->steps[at(lane.step)];
    const auto& before = step.code->before[at(step.code->of_stream[s][at(lane.index)])];
    for (std::size_t other = 0; other < kStreams; ++other) {
      std::int32_t lag = -1;
      if ((task.waits >> other & 1U) != 0) lag = 0;
      if (task.lag != 0 && at(task.lag_stream) == other) lag = task.lag;
      if (lag >= 0 && run.lanes[other].done < step.before[other] + before[other] - lag) return other;
    }
    return kStreams;
  }

  // Counts the time since the compute stream fell idle, or since this was last asked: the part in which the stream that
  // it waits for was moving bytes, and the part in which that stream waited itself.
  void count_idle(Run& run) {
    const Lane& lane = run.lanes[0];
    const Picoseconds gap = now_ - run.idle_since;
    if (gap > 0) {
      const Lane& other = run.lanes[at(lane.blocked_on)];
      const Picoseconds moving = std::min(gap, busy(other) - run.busy_then);
      run.time.breakdown[sized(stream_category(lane.blocked_on))] += moving;
      run.time.breakdown[sized(Category::kBubble)] += gap - moving;
    }
    run.idle_since = now_;
  }
  Picoseconds busy(const Lane& lane) const {
    return lane.busy + (lane.state == State::kRunning ? now_ - lane.start : 0);
  }

  void try_start(std::int32_t c, Stream stream) {
    Run& run = runs_[at(c)];
    const std::size_t s = at(stream);
    Lane& lane = run.lanes[s];
    const Task* task = next(run, lane, s);
    if (task == nullptr) {
      if (lane.state != State::kFinished && stream == Stream::kCompute) run.time.end = now_;
      lane.state = State::kFinished;
      return;
    }
    const std::size_t on = obstacle(run, lane, s, *task);
    if (on != kStreams) {
      if (stream == Stream::kCompute && (lane.state != State::kBlocked || at(lane.blocked_on) != on)) {
        if (lane.state == State::kBlocked) count_idle(run);
        run.idle_since = now_;
        run.busy_then = busy(run.lanes[on]);
      }
      lane.state = State::kBlocked;
      lane.blocked_on = static_cast<Stream>(on);
      return;
    }
    if (stream == Stream::kCompute && lane.state == State::kBlocked) count_idle(run);
    lane.arrived = now_;
    if (task->kind == Kind::kCompute) {
      lane.state = State::kRunning;
      lane.start = now_;
      run.left = run.plan->steps[at(lane.step)].code->merged ? task->duration : compute_time(*task, run.slow);
      run.since = now_;
      REEL_CHECK(stream == Stream::kCompute);
      REEL_CHECK(run.neighbour == nullptr || !run.plan->steps[at(lane.step)].code->merged);
      set_pace(c, *task);
    } else {
      lane.state = State::kArrived;
      arrive(c, stream, *task);
    }
  }

  // Compute of class c continues at the pace that its neighbour on kData leaves it.
  void set_pace(std::int32_t c, const Task& task) {
    Run& run = runs_[at(c)];
    run.factor = run.neighbour == nullptr ? 1000 : run.neighbour->slowdown[task.kernel];
    ++run.version;
    const Picoseconds wall = run.factor == 1000 ? run.left : (run.left * run.factor + 999) / 1000;
    events_.push({now_ + wall, c, run.version});
  }

  // What the running task has done until now; where `ends`, all of it.
  void advance(Run& run, bool ends) {
    const Picoseconds elapsed = now_ - run.since;
    const Picoseconds done =
        ends ? run.left : std::min(run.left, run.factor == 1000 ? elapsed : elapsed * 1000 / run.factor);
    if (run.neighbour != nullptr) {
      run.time.beside += elapsed;
      run.time.lost += elapsed - done;
    }
    run.left -= done;
    run.since = now_;
  }

  void set_neighbour(std::int32_t c, const CallCost* neighbour) {
    Run& run = runs_[at(c)];
    Lane& lane = run.lanes[0];
    if (lane.state != State::kRunning) {
      run.neighbour = neighbour;
      return;
    }
    const Task* task = next(run, lane, 0);
    if (task->kind != Kind::kCompute) {
      run.neighbour = neighbour;
      return;
    }
    advance(run, false);
    run.neighbour = neighbour;
    REEL_CHECK(neighbour == nullptr || !run.plan->steps[at(lane.step)].code->merged);
    set_pace(c, *task);
  }

  void arrive(std::int32_t c, Stream stream, const Task& task) {
    const std::int32_t m = meetings_.of(c, w_.calls[at(task.call)].slot);
    REEL_CHECK(m >= 0);
    Present& meeting = present_[at(m)];
    const CallCost& price = call_cost(w_, folding_, c, task);
    if (meeting.ends.empty()) meeting.left = 0, meeting.load = 0;
    meeting.left = std::max(meeting.left, price.duration);  // a receive says nothing of time and load
    if (price.load > meeting.load) meeting.load = price.load, meeting.link = price.link;
    const int directions = task.kind == Kind::kSend ? kOut : task.kind == Kind::kReceive ? kIn : kOut | kIn;
    meeting.ends.push_back({c, stream, static_cast<std::uint8_t>(directions)});
    if (static_cast<std::int32_t>(meeting.ends.size()) < meetings_.ends[at(m)]) return;
    for (const End& end : meeting.ends) {
      Run& run = runs_[at(end.of)];
      Lane& lane = run.lanes[at(end.stream)];
      lane.state = State::kRunning;
      lane.start = now_;
      lane.meeting = m;
      if (end.stream == Stream::kData)
        set_neighbour(end.of, &call_cost(w_, folding_, end.of, *next(run, lane, at(end.stream))));
    }
    meeting.since = now_;
    meeting.factor = 0;
    add_load(meeting, meeting.load);
    starting_.push_back(m);
  }

  void end_meeting(std::int32_t m) {
    add_load(present_[at(m)], -present_[at(m)].load);
    ending_.swap(present_[at(m)].ends);
    for (const End& end : ending_) {
      if (end.stream == Stream::kData) set_neighbour(end.of, nullptr);
      runs_[at(end.of)].lanes[at(end.stream)].meeting = -1;
      end_task(end.of, end.stream);
    }
    for (const End& end : ending_) go_on(end.of, end.stream);  // starts things, ends none, so ending_ stays
    ending_.clear();
  }

  // Puts a call's load on its members' wires, or takes it off; remembers whose other calls may change their pace.
  void add_load(const Present& meeting, std::int32_t load) {
    if (load == 0) return;
    for (const End& end : meeting.ends) {
      for (const Direction direction : {kOut, kIn}) {
        if ((end.directions & direction) == 0) continue;
        std::int32_t& sum = runs_[at(end.of)].load[wire(meeting.link, direction)];
        if (std::max(sum, sum + load) > 1000) changed_.push_back(end.of);
        sum += load;
      }
    }
  }

  // All that began and ended at one time is there: calls get their pace. Doing it once, at the end of each point in
  // time, makes the rounding of what is left independent of the order within it, so that folded equals unfolded.
  bool settle() {
    if (starting_.empty() && changed_.empty()) return false;
    for (const std::int32_t c : changed_) {
      for (const Lane& lane : runs_[at(c)].lanes) {
        if (lane.meeting >= 0) set_factor(lane.meeting);
      }
    }
    for (const std::int32_t m : starting_) set_factor(m);
    changed_.clear();
    starting_.clear();
    return true;
  }

  void set_factor(std::int32_t m) {
    Present& meeting = present_[at(m)];
    std::int32_t factor = 1000;
    for (const End& end : meeting.ends) {
      for (const Direction direction : {kOut, kIn}) {
        if (meeting.load > 0 && (end.directions & direction) != 0)
          factor = std::max(factor, runs_[at(end.of)].load[wire(meeting.link, direction)]);
      }
    }
    if (factor == meeting.factor) return;
    if (meeting.factor != 0) meeting.left -= std::min(meeting.left, (now_ - meeting.since) * 1000 / meeting.factor);
    meeting.since = now_;
    meeting.factor = factor;
    events_.push({now_ + (meeting.left * factor + 999) / 1000, -1 - m, ++meeting.version});
  }

  // Counts the task that ended now; the next ones are started by go_on.
  void end_task(std::int32_t c, Stream stream) {
    Run& run = runs_[at(c)];
    Lane& lane = run.lanes[at(stream)];
    const ScheduleStep& step = run.plan->steps[at(lane.step)];
    const Code& code = *step.code;
    const std::int32_t index = code.of_stream[at(stream)][at(lane.index)];
    const Task& task = code.tasks[at(index)];
    if (stream == Stream::kCompute) {
      Breakdown& sum = run.time.breakdown;
      if (code.merged) {
        for (std::size_t i = 0; i < kCategories; ++i) sum[i] += code.breakdown[i];
      } else {
        sum[sized(Category::kBubble)] += lane.start - lane.arrived;
        sum[sized(task.category)] += now_ - lane.start;
      }
      if (task.kind == Kind::kCompute) advance(run, true);
    } else {
      lane.busy += now_ - lane.start;
    }
    if (spans_)
      result_.spans.push_back({c, stream, code.source, index, step.micro_batch, lane.arrived, lane.start, now_});
    ++lane.done;
    ++lane.index;
    lane.state = State::kArrived;  // neither blocked nor running: try_start says what comes next
    ++result_.tasks;
  }

  void go_on(std::int32_t c, Stream stream) {
    try_start(c, stream);
    Run& run = runs_[at(c)];
    for (std::size_t s = 0; s < kStreams; ++s) {
      if (run.lanes[s].state == State::kBlocked && run.lanes[s].blocked_on == stream)
        try_start(c, static_cast<Stream>(s));
    }
  }

  void check_finished();
  std::string describe(std::int32_t c, std::size_t s);

  const Workload& w_;
  const Folding& folding_;
  bool spans_;
  Meetings meetings_;
  std::vector<Present> present_;  // by meeting
  Picoseconds now_ = 0;
  std::vector<std::unique_ptr<Schedule>> plans_;
  std::vector<Run> runs_;
  std::vector<End> ending_;
  std::vector<std::int32_t> starting_, changed_;  // at this point in time: meetings; classes with full wires
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Timeline result_;
};

std::string Engine::describe(std::int32_t c, std::size_t s) {
  Run& run = runs_[at(c)];
  const Task* task = next(run, run.lanes[s], s);
  const std::int32_t micro_batch = run.plan->steps[at(run.lanes[s].step)].micro_batch;
  return fmt::format("rank {}: {}{}", folding_.representative[at(c)], w_.names[at(task->name)],
                     micro_batch < 0 ? "" : fmt::format(" of micro-batch {}", micro_batch));
}

// Follows who waits for whom from the first stream that has not finished until it comes back to where it was.
void Engine::check_finished() {
  std::int32_t c = -1;
  std::size_t s = 0;
  for (std::int32_t i = 0; c < 0 && i < folding_.classes(); ++i) {
    for (std::size_t j = 0; c < 0 && j < kStreams; ++j) {
      if (runs_[at(i)].lanes[j].state != State::kFinished) c = i, s = j;
    }
  }
  if (c < 0) return;
  std::vector<std::pair<std::int32_t, std::size_t>> seen;
  std::string chain;
  while (std::find(seen.begin(), seen.end(), std::pair(c, s)) == seen.end() && seen.size() < 12) {
    seen.emplace_back(c, s);
    Run& run = runs_[at(c)];
    chain += (chain.empty() ? "" : "\nwaits for ") + describe(c, s);
    if (run.lanes[s].state == State::kBlocked) {
      s = at(run.lanes[s].blocked_on);
      continue;
    }
    // It has arrived at a call: continue with a member that has not.
    const std::int32_t slot = w_.calls[at(next(run, run.lanes[s], s)->call)].slot;
    const std::int32_t m = meetings_.of(c, slot);
    bool found = false;
    for (std::int32_t i = 0; !found && i < folding_.classes(); ++i) {
      for (std::int32_t other = 0; !found && other < w_.slots; ++other) {
        if (meetings_.of(i, other) != m || (i == c && other == slot)) continue;
        const auto& present = present_[at(m)].ends;
        if (std::any_of(present.begin(), present.end(), [&](const End& end) { return end.of == i; }) && i != c)
          continue;
        // The stream whose next call is this one is where the member hangs; none: it will never come.
        found = true;
        std::size_t where = kStreams;
        for (std::size_t j = 0; j < kStreams; ++j) {
          const Task* task = next(runs_[at(i)], runs_[at(i)].lanes[j], j);
          if (task != nullptr && (where == kStreams || (task->call >= 0 && w_.calls[at(task->call)].slot == other)))
            where = j;
        }
        if (where == kStreams) {
          throw Error("the workload stops: operations wait for each other",
                      chain + fmt::format("\nwaits for rank {}, which has finished", folding_.representative[at(i)]));
        }
        c = i, s = where;
      }
    }
    if (!found) break;
  }
  if (seen.size() < 12) chain += "\nwaits for " + describe(c, s);
  throw Error("the workload stops: operations wait for each other", chain);
}

}  // namespace

Timeline run(const Workload& workload, const Folding& folding, bool spans) {
  return Engine(workload, folding, spans).run();
}

}  // namespace reel::sim
