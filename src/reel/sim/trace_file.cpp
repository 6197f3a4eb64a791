#include "reel/sim/trace_file.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/trace/chrome.h"

namespace reel::sim {

namespace {

std::string arguments(const Task& task, const Span& span, const Workload& w) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  if (span.micro_batch >= 0) add(fmt::format("\"micro_batch\":{}", span.micro_batch));
  if (task.layer >= 0) add(fmt::format("\"layer\":{}", task.layer));
  if (task.call >= 0) {
    add(fmt::format("\"bytes\":{}", w.calls[sized(task.call)].bytes));
    add(fmt::format("\"waited_us\":{}", static_cast<double>(span.start - span.arrived) * 1e-6));
  }
  return text;
}

// Memory changes where blocks begin and end.
void write_memory(trace::ChromeWriter& writer, std::int64_t rank, const Program& program,
                  const std::vector<const Span*>& spans) {
  double held = program.static_bytes;
  const auto count = [&](Picoseconds time, double bytes) {
    writer.counter(rank, "memory GiB", time, bytes / (1 << 30));
  };
  count(0, held);
  std::size_t at = 0;
  for (const Step& step : program.order) {
    const Block& block = program.blocks[sized(step.block)];
    const auto tasks = sized(std::count_if(block.tasks.begin(), block.tasks.end(),
                                           [](const Task& t) { return t.stream == Stream::kCompute; }));
    if (tasks == 0) continue;
    REEL_CHECK(at + tasks <= spans.size());
    count(spans[at]->start, held + block.needs);
    held += block.keeps;
    at += tasks;
    count(spans[at - 1]->end, held);
  }
}

}  // namespace

void write_trace(const Job& job, const cost::Cluster& cluster, const Options& options, std::vector<std::int64_t> ranks,
                 const std::string& path) {
  const Built built = build(job, cluster, options.measured);
  const Workload& w = built.workload;
  const Folding folding = options.fold ? fold(w) : unfolded(w);
  const Timeline timeline = run(w, folding, true);
  if (ranks.empty()) ranks.assign(folding.representative.begin(), folding.representative.end());
  for (const std::int64_t rank : ranks) {
    if (rank < 0 || rank >= w.ranks()) {
      throw Error(fmt::format("there is no rank {} to trace", rank), fmt::format("ranks are 0 to {}", w.ranks() - 1));
    }
  }
  std::vector<std::vector<const Span*>> of_class(sized(folding.classes()));
  for (const Span& span : timeline.spans) of_class[sized(span.of)].push_back(&span);
  write_file_atomically(path, [&](FileWriter& file) {
    trace::ChromeWriter writer(file);
    for (const std::int64_t rank : ranks) {
      const auto c = sized(folding.class_of[sized(rank)]);
      const Program& program = w.programs[sized(w.program_of[sized(rank)])];
      writer.name_process(rank, fmt::format("rank {} (simulated; {} like it)", rank, folding.size[c]));
      std::array<bool, kStreams> named{};
      std::vector<const Span*> compute;
      for (const Span* span : of_class[c]) {
        const auto stream = sized(span->stream);
        if (!named[stream]) writer.name_thread(rank, static_cast<std::int64_t>(stream), stream_name(span->stream));
        named[stream] = true;
        const Task& task = program.blocks[sized(span->block)].tasks[sized(span->task)];
        writer.slice({rank, static_cast<std::int64_t>(stream), span->start, span->end - span->start,
                      w.names[sized(task.name)], category_name(task.category), arguments(task, *span, w)});
        if (span->stream == Stream::kCompute) compute.push_back(span);
      }
      write_memory(writer, rank, program, compute);
    }
    writer.finish();
  });
}

}  // namespace reel::sim
