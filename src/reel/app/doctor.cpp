#include <filesystem>

#include "reel/app/app.h"
#include "reel/app/measure.h"
#include "reel/base/error.h"
#include "reel/comm/mpi.h"
#include "reel/data/video_file.h"
#include "reel/kernels/cpu.h"

namespace reel::app {

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

void line(const std::string& name, const std::string& text) { fmt::print("{:<18} {}\n", name, text); }

void doctor(int thread_count, bool write, const std::string& path) {
  if (write && std::filesystem::is_directory(path))
    throw Error(fmt::format("--out: {} is a folder", path), "name a file in it");
  Threads threads(thread_count);
  const cost::Machine machine = measure_machine(threads, write ? 0.5 : 0.05);
  line("reel", REEL_VERSION);
  line("CPU", machine.cpu);
  line("cores", fmt::format("{} for this process, {} thread{} used", machine.cores, threads.count(),
                            threads.count() == 1 ? "" : "s"));
  line("instruction sets", fmt::format("{} (in use: {}, {} floats a vector)", joined(kernels::available_targets()),
                                       machine.target, kernels::vector_floats()));
  line("AMX", kernels::amx_works() ? "works (not used yet: kernels compute in f32)" : "not here");
  line("caches", fmt::format("L1 {}, L2 {} a core, L3 {}", format_bytes(machine.l1), format_bytes(machine.l2),
                             format_bytes(machine.l3)));
  line("memory", format_bytes(machine.memory));
  line("MPI", comm::mpi_version().empty() ? "not built in: one process only (Debian: libopenmpi-dev, then build again)"
                                          : comm::mpi_version());
  line("FFmpeg", data::video_supported() ? "built in"
                                         : "not built in: no mp4, no video files as data (Debian: libavformat-dev "
                                           "libavcodec-dev libavutil-dev libswscale-dev, then build again)");
  fmt::print("\n{:<18} {:>10} {:>14}\n", "measured", "one thread", threads.count() == 1 ? "" : "all threads");
  fmt::print("{:<18} {:>10.1f} {:>14.1f}  GFLOP/s\n", "f32 multiply-add", machine.peak_one / 1e9,
             machine.peak_all / 1e9);
  fmt::print("\n{:<18} {:>10} {:>14} {:>10}  GB/s, all threads\n", "bandwidth", "read", "write", "copy");
  for (const cost::MemoryLevel& level : machine.levels) {
    fmt::print("{:<18} {:>10.1f} {:>14.1f} {:>10.1f}  ({} a thread)\n", level.name, level.read / 1e9, level.write / 1e9,
               level.copy / 1e9, format_bytes(level.bytes));
  }
  if (write) {
    cost::save(machine, path);
    fmt::print("\nwritten to {}\n", path);
  } else {
    fmt::print("\nA quick look; 'reel doctor --measure' takes longer and keeps the result for plan and study.\n");
  }
}

}  // namespace

void add_doctor(Verb& parser, Action& action) {
  struct Options {
    int threads = default_threads();
    bool measure = false;
    std::string out;
  };
  auto options = std::make_shared<Options>();
  Verb* verb = parser.add_subcommand("doctor", "says what this machine is and can do");
  verb->add_flag("--measure", options->measure, "measure longer and write the Machine file");
  verb->add_option("--out", options->out, fmt::format("where to write it; without: {}", cost::machine_path()))
      ->type_name("FILE");
  verb->add_option("--threads", options->threads, "threads to use")->capture_default_str();
  verb->callback([options, &action] {
    action = [options] {
      if (!options->measure && !options->out.empty()) throw Error("--out is for --measure", "add --measure");
      doctor(options->threads, options->measure, options->out.empty() ? cost::machine_path() : options->out);
    };
  });
}

}  // namespace reel::app
