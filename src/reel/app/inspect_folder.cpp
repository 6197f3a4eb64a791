#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "reel/app/inspect.h"
#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/files/toml.h"
#include "reel/model/folder.h"
#include "reel/report/metrics.h"
#include "reel/train/checkpoint.h"

namespace reel::app {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) paths.push_back(entry.path());
  if (error) throw Error(fmt::format("{}: cannot be read: {}", folder, error.message()), "check the permissions");
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Lines of an Error: what is wrong, and below it the list or the hint.
void add_problem(Json& problems, const Error& error) {
  problems.push_back(error.what());
  const std::string& hint = error.hint();
  for (std::size_t at = 0; at < hint.size();) {
    const std::size_t end = std::min(hint.find('\n', at), hint.size());
    problems.push_back(hint.substr(at, end - at));
    at = end + 1;
  }
}

Json weight_files(const std::string& folder) {
  Json files = Json::array();
  for (const fs::path& path : entries_of(folder)) {
    if (path.extension() != ".safetensors") continue;
    try {
      Json file = look_at_file(path, false);
      Json types = Json::array();
      for (const Json& each : file.value("dtypes", Json::array())) types.push_back(each["dtype"]);
      files.push_back({{"name", path.filename()},
                       {"bytes", file["bytes"]},
                       {"tensors", file.value("tensors", 0)},
                       {"dtypes", std::move(types)}});
    } catch (const Error&) {  // what is wrong is a problem of the weights, or of a file that nobody asked about
      files.push_back({{"name", path.filename()}, {"bytes", fs::file_size(path)}, {"tensors", 0}, {"dtypes", {}}});
    }
  }
  return files;
}

Json look_at_model(const std::string& folder) {
  const model::ModelConfig c = model::load_config(folder);
  const auto model = model::make_denoiser(c, tape::Parameters::With::kGhost);
  Json problems = Json::array();
  try {
    model::load_weights(*model, folder);
  } catch (const Error& error) {
    add_problem(problems, error);
  }
  return {{"kind", "model"},
          {"path", folder},
          {"family", c.family},
          {"layers", c.layers},
          {"width", c.width()},
          {"heads", c.heads},
          {"head_dim", c.head_dim},
          {"ffn", c.inner()},
          {"patch", c.patch},
          {"channels", c.channels},
          {"out_channels", c.out_channels()},
          {"text_width", c.text_width},
          {"parameters", model->parameters().count()},
          {"trained", model->parameters().trained_count()},
          {"files", weight_files(folder)},
          {"fits", problems.empty()},
          {"problems", problems}};
}

Json last_metrics(const std::string& path) {
  if (!fs::exists(path)) return nullptr;
  const report::Metrics metrics = report::read_metrics(path);
  if (metrics.rows.empty()) return nullptr;
  Json json = {{"step", metrics.rows.back().step}};
  for (const auto& [name, value] : metrics.rows.back().values) {
    json[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  }
  return json;
}

Json look_at_run(const std::string& folder) {
  const Toml toml = Toml::load(folder + "/config.toml");
  Json json = {{"kind", "run"}, {"path", folder}, {"step", 0}};
  json["steps"] = toml.integer("train.steps", train::TrainConfig{}.steps);
  json["checkpoints"] = Json::array();
  for (const auto& [step, path] : train::checkpoints_of(folder)) {
    json["checkpoints"].push_back(fs::path(path).filename());
  }
  const std::string latest = train::latest_checkpoint(folder);
  json["latest"] = latest.empty() ? Json(nullptr) : Json(fs::path(latest).filename());
  json["metrics"] = last_metrics(folder + "/metrics.jsonl");
  if (!json["metrics"].is_null()) json["step"] = json["metrics"]["step"];
  json["model"] = latest.empty() ? Json(nullptr) : look_at_model(latest);
  return json;
}

}  // namespace

Json look_at_folder(const std::string& path) {
  if (fs::exists(path + "/config.toml")) return look_at_run(path);
  if (fs::exists(path + "/config.json")) return look_at_model(path);
  const bool pipeline = fs::exists(path + "/transformer/config.json");
  throw Error(fmt::format("{}: neither a model (config.json) nor a run (config.toml){}", path,
                          entries_of(path).empty() ? "; it is empty" : ""),
              pipeline ? fmt::format("it holds a whole pipeline: look at {}/transformer", path)
                       : "name a .safetensors file, a model folder as diffusers saves it, or the folder of a run");
}

}  // namespace reel::app
