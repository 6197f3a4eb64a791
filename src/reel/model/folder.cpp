#include "reel/model/folder.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/files/folder.h"
#include "reel/model/family.h"

namespace reel::model {

namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "diffusion_pytorch_model.safetensors";
constexpr const char* kTransformersWeights = "model.safetensors";  // Open-Sora's, which is a class of transformers
constexpr const char* kPrefix = "model.diffusion_model.";

// The files that hold the weights of a folder; a file stands for itself.
std::vector<std::string> weight_files(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::string index;
  for (const char* name : {kWeights, kTransformersWeights}) {
    const std::string single = path + "/" + name;
    if (fs::exists(single)) return {single};
    if (index.empty() && fs::exists(single + ".index.json")) index = single + ".index.json";
  }
  if (index.empty()) {
    throw Error(fmt::format("{}: no weights: neither {} nor {}.index.json is there", path, kWeights, kWeights),
                "give a folder as diffusers saves it");
  }
  std::set<std::string> files;
  try {
    const auto json = nlohmann::json::parse(read_file(index));
    for (const auto& entry : json.at("weight_map").items()) {
      const std::string file = entry.value().get<std::string>();
      if (file.find('/') != std::string::npos)
        throw Error(fmt::format("{}: shard '{}'", index, file), "shards lie beside it");
      files.insert(fmt::format("{}/{}", path, file));
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: not an index of shards: {}", index, error.what()), "");
  }
  return {files.begin(), files.end()};
}

// Collects what is wrong and says it in one Error.
class Complaints {
 public:
  void add(std::string what) { all_.push_back(std::move(what)); }
  void raise(const std::string& where) const {
    if (all_.empty()) return;
    constexpr std::size_t kShown = 12;
    std::string list;
    for (std::size_t i = 0; i < std::min(all_.size(), kShown); ++i) list += (i > 0 ? "\n" : "") + all_[i];
    if (all_.size() > kShown) list += fmt::format("\n... and {} more", all_.size() - kShown);
    throw Error(fmt::format("{}: {} tensors do not fit the model", where, all_.size()), list);
  }

 private:
  std::vector<std::string> all_;
};

// Tensors that some files leave out because they follow from the configuration.
bool may_be_absent(const Parameter& p) { return !p.trained; }

void fill_default(Parameter& p) {
  if (p.name != "rope.freqs" || p.value == nullptr) return;
  for (std::int64_t i = 0; i < p.size(); ++i) {
    p.value[i] = static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(p.size())));
  }
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16 ||
         dtype == Dtype::kF8E4M3 || dtype == Dtype::kF8E5M2;
}

void read_into(Parameter& p, const SafetensorsFile& file, const std::string& name, Complaints& complaints) {
  const TensorInfo& info = file.info(name);
  if (info.shape != p.shape) {
    complaints.add(
        fmt::format("{} is {}, should be {}", name, tape::shape_text(info.shape), tape::shape_text(p.shape)));
  } else if (!is_float(info.dtype)) {  // quantised: without its scales it says nothing
    complaints.add(fmt::format("{} is {}, should be of floats", name, dtype_name(info.dtype)));
  } else if (p.value != nullptr) {
    file.read_f32(name, p.values());
  }
}

}  // namespace

std::string file_name_of(const ModelConfig& config, const std::string& parameter) {
  return config.official_names ? family_of(config).official_name(parameter) : parameter;
}

ModelConfig load_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!fs::exists(path)) {
    throw Error(fmt::format("{}: no config.json", folder), "a model folder holds config.json and the weights");
  }
  return parse_config(read_file(path), path);
}

std::unique_ptr<Denoiser> load_model(const std::string& folder, tape::Parameters::With with) {
  std::unique_ptr<Denoiser> model = make_denoiser(load_config(folder), with);
  load_weights(*model, folder);
  return model;
}

void load_weights(Denoiser& model, const std::string& path) {
  Complaints complaints;
  std::vector<SafetensorsFile> files;
  std::map<std::string, const SafetensorsFile*> where;  // by name in the files, without the prefix
  std::map<std::string, std::string> full;
  for (const std::string& file : weight_files(path)) files.push_back(SafetensorsFile::open(file));
  for (const SafetensorsFile& file : files) {
    for (const std::string& name : file.names()) {
      const std::string bare = name.starts_with(kPrefix) ? name.substr(std::string(kPrefix).size()) : name;
      if (!where.emplace(bare, &file).second) complaints.add(fmt::format("{} is there twice", bare));
      full.emplace(bare, name);
    }
  }
  for (Parameter& p : model.parameters().all()) {
    // Either set of names, whatever the configuration is called: repackaged files mix them.
    std::string name = file_name_of(model.config(), p.name);
    if (const auto official = family_of(model.config()).official_name; official != nullptr && !where.contains(name)) {
      name = model.config().official_names ? p.name : official(p.name);
    }
    const auto found = where.find(name);
    if (found == where.end()) {
      fill_default(p);
      if (!may_be_absent(p)) complaints.add(fmt::format("{} is missing", file_name_of(model.config(), p.name)));
      continue;
    }
    read_into(p, *found->second, full[name], complaints);
    where.erase(found);
  }
  for (const auto& [name, file] : where) complaints.add(fmt::format("{} is not part of this model", full[name]));
  complaints.raise(path);
}

void load_weights(tape::Parameters& parameters, const SafetensorsFile& file, const std::string& prefix) {
  Complaints complaints;
  std::set<std::string> used;
  for (Parameter& p : parameters.all()) {
    const std::string name = prefix + p.name;
    if (!file.contains(name)) {
      complaints.add(fmt::format("{} is missing", name));
      continue;
    }
    used.insert(name);
    read_into(p, file, name, complaints);
  }
  for (const std::string& name : file.names()) {
    if (name.starts_with(prefix) && !used.contains(name))
      complaints.add(fmt::format("{} is not part of this model", name));
  }
  complaints.raise(file.name());
}

void save_model(const Denoiser& model, const std::string& folder) {
  make_folder(folder);
  SafetensorsWriter writer;
  for (const Parameter& p : model.parameters().all()) {
    writer.add(file_name_of(model.config(), p.name), p.shape, p.values());
  }
  writer.set_metadata("format", "pt");
  writer.write(folder + "/" + kWeights);
  write_file_atomically(folder + "/config.json", config_json(model.config()));
}

}  // namespace reel::model
