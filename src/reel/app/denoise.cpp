// reel denoise: one pass of a model folder, the black box that parity is checked through.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "reel/app/app.h"
#include "reel/app/lists_file.h"
#include "reel/app/traffic.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/comm/mpi.h"
#include "reel/files/safetensors.h"
#include "reel/model/clips.h"
#include "reel/model/family.h"
#include "reel/model/folder.h"

namespace reel::app {

namespace {

struct DenoiseOptions {
  std::string model, inputs, outputs, lists, plan, traffic;
  bool gradients = false, recompute = false;
  int threads = default_threads();
};

std::vector<float> numbers(const SafetensorsFile& file, const std::string& name) {
  if (!file.contains(name)) return {};
  std::vector<float> values(file.info(name).elements);
  file.read_f32(name, values);
  return values;
}

std::vector<std::uint8_t> flags(const SafetensorsFile& file, const std::string& name) {
  std::vector<std::uint8_t> result;
  for (const float value : numbers(file, name)) result.push_back(value != 0 ? 1 : 0);
  return result;
}

tape::Tensor tensor(tape::Tape& tape, const SafetensorsFile& file, const std::string& name) {
  const Buffer<float> values = file.read_f32(name);
  return tape.copy_in(file.info(name).shape, values);
}

// All that is missing in one Error; what no model takes is said, and left alone.
void check_names(const SafetensorsFile& file, const model::Family& family, bool gradients, bool root) {
  std::vector<std::string> needed = {"hidden_states", "timestep", "encoder_hidden_states"};
  if (family.wants_size) needed.insert(needed.end(), {"fps", "height", "width"});
  if (gradients) needed.push_back("target");
  std::erase_if(needed, [&](const std::string& name) { return file.contains(name); });
  if (!needed.empty()) {
    throw Error(fmt::format("{}: there is no {}", file.name(), fmt::join(needed, ", no ")),
                fmt::format("it holds {}", fmt::join(file.names(), ", ")));
  }
  const std::set<std::string> known = {
      "hidden_states", "timestep", "encoder_hidden_states", "target", "x_mask", "mask", "fps", "height", "width"};
  for (const std::string& name : file.names()) {
    if (root && !known.contains(name)) fmt::print(stderr, "reel: {}: {} is not looked at\n", file.name(), name);
  }
}

model::Input read_input(tape::Tape& tape, const SafetensorsFile& file, const model::ModelConfig& config) {
  model::Input in;
  in.latents = tensor(tape, file, "hidden_states");
  in.text = tensor(tape, file, "encoder_hidden_states");
  in.times = numbers(file, "timestep");
  in.fps = numbers(file, "fps");
  in.height = numbers(file, "height");
  in.width = numbers(file, "width");
  in.text_mask = flags(file, "mask");
  in.given_frames = flags(file, "x_mask");
  for (std::uint8_t& flag : in.given_frames) flag = flag != 0 ? 0 : 1;  // x_mask names the frames to denoise
  if (!model::family_of(config).takes_text_mask && !in.text_mask.empty()) {
    throw Error(fmt::format("{}: {} takes no text mask", file.name(), config.family),
                "leave out `mask`: the model attends to padding, too");
  }
  return in;
}

void denoise(const DenoiseOptions& options) {
  comm::Session session;
  comm::Comm& world = session.world();
  const layout::Degrees plan = layout::parse_degrees(options.plan);
  parallel::Team team(world, plan);
  Threads threads(options.threads);
  comm::poll_while_computing(threads, world);
  const SafetensorsFile file = SafetensorsFile::open(options.inputs);
  const auto model = model::load_model(
      options.model, options.gradients ? tape::Parameters::With::kGradients : tape::Parameters::With::kValues);
  model::check_plan(model->config(), plan);
  tape::Pool pool;
  tape::Tape tape(threads, pool, {.gradients = options.gradients});
  model::Context context(tape);
  context.recompute = options.recompute;
  context.team = &team;
  if (!options.lists.empty()) {
    context.lists = std::make_shared<lists::OrderedLists>(lists::load_key_lists(options.lists));
    if (world.rank() == 0) tell_assumed_order(options.lists, *context.lists.all);
  }
  check_names(file, model::family_of(model->config()), options.gradients, world.rank() == 0);
  const model::Input in = read_input(tape, file, model->config());
  const Timer timer;
  const tape::Tensor sample = model::forward_clips(*model, context, in);
  SafetensorsWriter writer;
  writer.add("sample", sample.shape(), sample.span());
  tape::Tensor loss;
  if (options.gradients) {
    const tape::Tensor target = tensor(tape, file, "target");
    if (target.shape() != sample.shape()) {
      throw Error(fmt::format("{}: target is {}, the model's output {}", options.inputs,
                              tape::shape_text(target.shape()), tape::shape_text(sample.shape())),
                  "the target must have the shape of the output");
    }
    loss = tape::mean_squared_error(tape, sample, target);
    tape.backward(loss);
    model->parameters().zero_untouched_gradients();
    // Each rank has the share of its clips and tokens.
    if (world.size() > 1) world.all_reduce(model->parameters().gradients(), {-1, Phase::kBackward});
    writer.add("loss", {}, loss.span());
    for (const tape::Parameter& p : model->parameters().all()) {
      if (!p.trained) continue;
      writer.add("grad." + model::file_name_of(model->config(), p.name), p.shape,
                 std::span<const float>(p.gradient, sized(p.size())));
    }
  }
  write_traffic(world, options.traffic);
  if (world.rank() != 0) return;
  writer.write(options.outputs);
  fmt::print("{}: {} parameters, sample {}{}, {:.2f} s, {:.2f} GB at most for activations\n", model->config().family,
             model->parameters().count(), tape::shape_text(sample.shape()),
             loss ? fmt::format(", loss {:.6g}", loss.item()) : "", timer.seconds(),
             static_cast<double>(pool.peak_bytes()) / 1e9);
}

}  // namespace

void add_denoise(Verb& parser, Action& action) {
  auto options = std::make_shared<DenoiseOptions>();
  Verb* verb =
      parser.add_subcommand("denoise", "one pass of a model folder over given tensors, with gradients if wanted");
  verb->add_option("model", options->model, "folder with config.json and safetensors weights, as diffusers saves it")
      ->required();
  verb->add_option(
          "--inputs", options->inputs,
          "safetensors: hidden_states, timestep, encoder_hidden_states; stdit3: fps, height, width, x_mask, mask")
      ->required();
  verb->add_option("--outputs", options->outputs, "safetensors to write: sample; with --gradients also loss and grad.*")
      ->required()
      ->to_write();
  verb->add_flag("--gradients", options->gradients,
                 "inputs hold `target`; also gives the gradient of the squared error");
  verb->add_flag("--recompute", options->recompute,
                 "run blocks again in backward instead of keeping what they computed");
  verb->add_option("--lists", options->lists,
                   "key lists (safetensors) for every self-attention; wan puts its tokens in their order");
  verb->add_option("--parallel", options->plan, kParallelHelp)->type_name("PLAN");
  verb->add_option("--traffic", options->traffic, kTrafficHelp)->type_name("FILE.json")->to_write();
  verb->add_option("--threads", options->threads, "threads")->between(1, 1024);
  verb->callback([options, &action] { action = [options] { denoise(*options); }; });
}

}  // namespace reel::app
