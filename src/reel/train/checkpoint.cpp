#include "reel/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/file.h"
#include "reel/files/folder.h"
#include "reel/model/folder.h"

namespace reel::train {

namespace {

namespace fs = std::filesystem;

std::span<const float> part(std::span<const float> flat, const tape::Parameters& parameters, const tape::Parameter& p) {
  return flat.subspan(parameters.offset(p), sized(p.size()));
}

// State as a whole: [trained floats] on rank 0, nothing on the others.
struct State {
  Buffer<float> of_ranks;
  std::span<const float> flat;
};

State whole(Trainer& trainer, std::span<const float> own) {
  State state;
  if (trainer.zero() == nullptr) {
    state.flat = own;
  } else {
    state.of_ranks = trainer.zero()->gather_at_root(own);
    state.flat = state.of_ranks;
  }
  return state;
}

// [begin, end) of the flat array from `from`, as far as the optimizer owns it, into `state`, laid out as what it owns.
void keep_owned(const optim::Optimizer& optimizer, std::size_t begin, std::span<const float> from,
                std::span<float> state) {
  std::size_t at = 0;
  for (const optim::Range& range : optimizer.owned()) {
    const std::size_t first = std::max(range.begin, begin), last = std::min(range.end, begin + from.size());
    if (first < last) {
      std::copy_n(from.data() + (first - begin), last - first, state.data() + at + (first - range.begin));
    }
    at += range.size();
  }
}

void write_optimizer(const std::string& path, Trainer& trainer, const State& first, const State& second) {
  const tape::Parameters& parameters = trainer.model().parameters();
  SafetensorsWriter writer;
  for (const tape::Parameter& p : parameters.all()) {
    if (!p.trained) continue;
    writer.add("first." + p.name, p.shape, part(first.flat, parameters, p));
    writer.add("second." + p.name, p.shape, part(second.flat, parameters, p));
  }
  writer.write(path);
}

void write_average(const std::string& path, Trainer& trainer, const State& average) {
  const tape::Parameters& parameters = trainer.model().parameters();
  SafetensorsWriter writer;
  for (const tape::Parameter& p : parameters.all()) {
    writer.add(model::file_name_of(trainer.config().model, p.name), p.shape,
               p.trained ? part(average.flat, parameters, p) : p.values());
  }
  writer.set_metadata("format", "pt");
  writer.write(path);
}

Buffer<float> read_flat(const SafetensorsFile& file, const std::string& name, const tape::Parameter& p) {
  if (!file.contains(name) || file.info(name).elements != sized(p.size())) {
    throw Error(fmt::format("{}: {} does not fit the model", file.name(), name),
                "the run file must describe the same model");
  }
  return file.read_f32(name);
}

// Reads state.json. What is missing in it, or damaged, is an Error.
template <class Read>
void read_state(const std::string& checkpoint, const Read& read) {
  try {
    read(nlohmann::json::parse(read_file(checkpoint + "/state.json")));
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}/state.json: {}", checkpoint, error.what()), "point RUN/latest at another checkpoint");
  }
}

}  // namespace

std::string latest_checkpoint(const std::string& run) {
  const std::string link = run + "/latest";
  std::error_code error;
  if (fs::exists(link + "/state.json", error)) return fs::canonical(link, error).string();
  if (fs::symlink_status(link, error).type() == fs::file_type::not_found) return "";
  throw Error(fmt::format("{}: not a link to a whole checkpoint", link),
              fmt::format("point it at one of {}/checkpoints, or remove it to start again", run));
}

// The name of step 1000000 comes before that of step 999999.
std::map<std::int64_t, std::string> checkpoints_of(const std::string& run) {
  std::map<std::int64_t, std::string> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", none)) {
    long long step = 0;
    if (entry.is_directory() && std::sscanf(entry.path().filename().c_str(), "step-%lld", &step) == 1) {
      found[step] = entry.path();
    }
  }
  return found;
}

std::int64_t step_of_checkpoint(const std::string& checkpoint) {
  std::int64_t step = 0;
  read_state(checkpoint, [&](const nlohmann::json& json) { step = json.at("step"); });
  return step;
}

void load_sparsity(const std::string& checkpoint, sparsity::Controller* controller) {
  const std::string path = checkpoint + "/sparsity.safetensors";
  if (controller != nullptr && fs::exists(path)) controller->load(path);
}

void save_checkpoint(const std::string& run, Trainer& trainer, const RunState& state, std::int64_t keep) {
  REEL_CHECK(keep >= 1);
  const std::string folder = run + "/checkpoints", name = fmt::format("step-{:06}", state.step);
  double there = fs::path(latest_checkpoint(run)).filename() == name ? 1 : 0;
  if (trainer.zero() != nullptr) {  // as rank 0 sees it
    if (!trainer.root()) there = 0;
    trainer.team()->world().all_reduce({&there, 1});
  }
  if (there != 0) return;  // the same step is the same checkpoint
  optim::Optimizer& optimizer = trainer.optimizer();
  const State first = whole(trainer, optimizer.first_moment()), second = whole(trainer, optimizer.second_moment());
  const State average = optimizer.has_average() ? whole(trainer, optimizer.average()) : State{};
  if (!trainer.root()) return;
  write_folder_atomically(folder + "/" + name, [&](const std::string& temporary) {
    model::save_model(trainer.model(), temporary);
    if (optimizer.has_average()) write_average(temporary + "/ema.safetensors", trainer, average);
    write_optimizer(temporary + "/optimizer.safetensors", trainer, first, second);
    if (trainer.sparsity() != nullptr) trainer.sparsity()->save(temporary + "/sparsity.safetensors");
    const nlohmann::ordered_json json = {
        {"step", state.step},       {"optimizer_steps", optimizer.steps_done()}, {"data_position", state.data_position},
        {"skipped", state.skipped}, {"skipped_in_row", state.skipped_in_row},    {"wall_seconds", state.wall_seconds}};
    write_file_atomically(temporary + "/state.json", json.dump(2) + "\n");
  });
  point_link(run + "/latest", "checkpoints/" + name);
  std::map<std::int64_t, std::string> others = checkpoints_of(run);
  others.erase(state.step);
  for (; others.size() >= sized(keep); others.erase(others.begin())) {
    remove_folder(others.begin()->second);
  }
}

std::optional<RunState> load_checkpoint(const std::string& run, Trainer& trainer) {
  const std::string folder = latest_checkpoint(run);
  if (folder.empty()) return std::nullopt;
  RunState state;
  std::int64_t optimizer_steps = 0;
  read_state(folder, [&](const nlohmann::json& json) {
    state = {json.at("step"), json.at("data_position"), json.at("skipped"), json.at("skipped_in_row"),
             json.at("wall_seconds")};
    optimizer_steps = json.at("optimizer_steps");
  });
  model::load_weights(trainer.model(), folder);
  const tape::Parameters& parameters = trainer.model().parameters();
  optim::Optimizer& optimizer = trainer.optimizer();
  const SafetensorsFile moments = SafetensorsFile::open(folder + "/optimizer.safetensors");
  const bool averaged = fs::exists(folder + "/ema.safetensors");
  optimizer.set_steps_done(optimizer_steps);
  if (optimizer.has_average()) optimizer.start_average();
  std::optional<SafetensorsFile> average;
  if (averaged && optimizer.has_average()) average = SafetensorsFile::open(folder + "/ema.safetensors");
  for (const tape::Parameter& p : parameters.all()) {
    if (!p.trained) continue;
    const std::size_t offset = parameters.offset(p);
    keep_owned(optimizer, offset, read_flat(moments, "first." + p.name, p), optimizer.first_moment());
    keep_owned(optimizer, offset, read_flat(moments, "second." + p.name, p), optimizer.second_moment());
    if (average) {
      keep_owned(optimizer, offset, read_flat(*average, model::file_name_of(trainer.config().model, p.name), p),
                 optimizer.average());
    }
  }
  load_sparsity(folder, trainer.sparsity());
  trainer.set_steps_done(state.step);
  return state;
}

}  // namespace reel::train
