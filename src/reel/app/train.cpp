#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "reel/app/app.h"
#include "reel/app/traffic.h"
#include "reel/app/train_listener.h"
#include "reel/comm/mpi.h"
#include "reel/train/checkpoint.h"
#include "reel/train/run.h"

namespace reel::app {

namespace {

struct TrainOptions {
  std::string file, out, plan, traffic;
  std::vector<std::string> set;
  std::string dump_masks;
  std::int64_t dump_every = 100;
  bool resume = false;
};

}  // namespace

void add_train(Verb& parser, Action& action) {
  auto options = std::make_shared<TrainOptions>();
  Verb* verb = parser.add_subcommand("train", "trains a model as a run file says (its keys: reel help config)");
  verb->add_option("config", options->file, "run file")->required()->type_name("FILE.toml");
  verb->add_option("--set", options->set, "another value for a key, as train.steps=2000; may be given several times")
      ->type_name("KEY=VALUE");
  verb->add_option("--out", options->out, "folder of the run; default: runs/NAME-OF-THE-FILE")->type_name("FOLDER");
  verb->add_flag("--resume", options->resume, "continue from the last checkpoint; start where there is none");
  verb->add_option("--dump-masks", options->dump_masks, "write the lists of keys of some steps, a file a layer")
      ->type_name("FOLDER");
  verb->add_option("--dump-every", options->dump_every, "of which steps: every n-th")
      ->between(std::int64_t{1}, std::int64_t{1} << 40)
      ->capture_default_str();
  verb->add_option("--parallel", options->plan, kParallelHelp)->type_name("PLAN");
  verb->add_option("--traffic", options->traffic, kTrafficHelp)->type_name("FILE.json")->to_write();
  verb->callback([options, &action] {
    action = [options] {
      comm::Session session;
      std::vector<std::string> overrides = options->set;
      if (!options->plan.empty()) overrides.push_back(fmt::format("parallel.plan=\"{}\"", options->plan));
      const std::string out =
          options->out.empty() ? "runs/" + std::filesystem::path(options->file).stem().string() : options->out;
      const std::string checkpoint = options->resume ? train::latest_checkpoint(out) : "";
      TrainListener listener;
      train::run(train::load_run(options->file, overrides, checkpoint), {.folder = out,
                                                                         .resume = options->resume,
                                                                         .dump_masks = options->dump_masks,
                                                                         .dump_every = options->dump_every,
                                                                         .world = &session.world(),
                                                                         .listener = &listener});
      write_traffic(session.world(), options->traffic);
    };
  });
}

std::string describe_config(const std::string& section) {
  train::RunConfig config;
  Settings settings;
  train::visit(settings, config);
  return describe(settings, section);
}

}  // namespace reel::app
