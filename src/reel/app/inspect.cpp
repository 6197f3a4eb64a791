// reel inspect: what is in a file of tensors, a model folder or a run.
#include "reel/app/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "reel/app/app.h"
#include "reel/base/sized.h"
#include "reel/model/family.h"

namespace reel::app {

namespace {

struct InspectOptions {
  std::string path;
  bool all = false, json = false;
};

constexpr std::size_t kLongestText = 100;  // of metadata: some files carry whole training logs there

// What comes from a file, in one line that a terminal can show.
std::string printable(std::string text, bool all) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (all || text.size() <= kLongestText) return text;
  std::size_t end = kLongestText;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + " ...";
}

std::string number(const Json& value) {  // 1418996800 -> 1,418,996,800
  std::string digits = std::to_string(value.get<std::int64_t>());
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(sized(at), ",");
  }
  return digits;
}

std::string counted(const Json& value, const char* one, const char* many) {
  return fmt::format("{} {}", number(value), value == 1 ? one : many);
}

std::string size(const Json& value) {
  double bytes = value.get<double>();
  const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string list(const Json& values, const char* separator) {
  std::string text;
  for (const Json& each : values) {
    text += (text.empty() ? "" : separator) + (each.is_string() ? each.get<std::string>() : each.dump());
  }
  return text;
}

std::string text_of(const Json& value) { return value.get<std::string>(); }

void entry(const std::string& name, const std::string& text) { fmt::print("{:<12} {}\n", name, text); }

void print_tensors(const Json& json, bool all) {
  fmt::print("{}: {}, {} parameters, {}\n", text_of(json["path"]), counted(json["tensors"], "tensor", "tensors"),
             number(json["parameters"]), size(json["bytes"]));
  for (const auto& [key, value] : json["metadata"].items()) {
    entry("metadata", fmt::format("{}: {}", printable(key, all), printable(text_of(value), all)));
  }
  if (json["dtypes"].size() > 1) {
    for (const Json& each : json["dtypes"]) {
      entry(text_of(each["dtype"]), fmt::format("{}, {} parameters, {}", counted(each["tensors"], "tensor", "tensors"),
                                                number(each["parameters"]), size(each["bytes"])));
    }
  }
  std::size_t name = 4, shape = 5, count = 5;
  for (const Json& each : json["groups"]) {
    name = std::max(name, text_of(each["name"]).size());
    shape = std::max(shape, list(each["shape"], ", ").size() + 2);
  }
  fmt::print("\n{:<{}}  {:<5} {:<{}} {:>{}} {:>16}\n", "name", name, "dtype", "shape", shape, "", count, "parameters");
  for (const Json& each : json["groups"]) {
    fmt::print("{:<{}}  {:<5} {:<{}} {:>{}} {:>16}\n", printable(text_of(each["name"]), true), name,
               text_of(each["dtype"]), fmt::format("[{}]", list(each["shape"], ", ")), shape,
               each["count"] == 1 ? "" : fmt::format("x {}", number(each["count"])), count, number(each["parameters"]));
  }
}

void print_lists(const Json& json) {
  const auto percent = [](const Json& value) { return fmt::format("{:.2f} %", 100 * value.get<double>()); };
  fmt::print("{}: key lists, {}\n", text_of(json["path"]), size(json["bytes"]));
  entry("attention",
        fmt::format("batch {}, {}, {} queries, {} keys", number(json["batch"]), counted(json["heads"], "head", "heads"),
                    number(json["queries"]), number(json["keys"])));
  const std::string order = text_of(json["order"]);
  entry("tokens", fmt::format("{}; head dimension {}",
                              order == "own"      ? "in an order of their own (tensor 'order')"
                              : order == "raster" ? "in raster order"
                                                  : "in raster order, it is assumed",
                              json["head_dim"].is_null() ? "unknown" : number(json["head_dim"])));
  entry("groups", fmt::format("{} of {} to {} queries", number(json["groups"]["count"]),
                              number(json["groups"]["least"]), number(json["groups"]["most"])));
  entry("lists", fmt::format("{} to {} keys, {:.1f} on average, {}", number(json["lists"]["least"]),
                             number(json["lists"]["most"]), json["lists"]["mean"].get<double>(),
                             json["granularity"] == 1 ? "one by one"
                                                      : fmt::format("in tiles of {}", number(json["granularity"]))));
  entry("density", fmt::format("{} of all pairs; {} dense", percent(json["density"]),
                               counted(json["dense_heads"], "head", "heads")));
  if (json.contains("density_of_heads")) {
    const Json& of = json["density_of_heads"];
    entry("of heads", fmt::format("least {}, median {}, most {}", percent(of["least"]), percent(of["median"]),
                                  percent(of["most"])));
  }
  if (!json.contains("of_heads")) return;
  fmt::print("\n{:>5} {:>5} {:>10}\n", "batch", "head", "density");
  for (std::size_t b = 0; b < json["of_heads"].size(); ++b) {
    for (std::size_t h = 0; h < json["of_heads"][b].size(); ++h) {
      fmt::print("{:>5} {:>5} {:>10}\n", b, h, percent(json["of_heads"][b][h]));
    }
  }
}

void print_model(const Json& json) {
  const bool pairs = !model::family_of({.family = json["family"]}).full_attention;
  fmt::print("{}: {}, {} parameters{}\n", text_of(json["path"]), text_of(json["family"]), number(json["parameters"]),
             json["trained"] == json["parameters"] ? "" : fmt::format(", {} of them trained", number(json["trained"])));
  entry("size", fmt::format("{}, width {} ({} of {}), feed-forward {}, patch {}",
                            pairs ? counted(json["layers"], "pair of blocks", "pairs of blocks")
                                  : counted(json["layers"], "block", "blocks"),
                            json["width"].dump(), counted(json["heads"], "head", "heads"), json["head_dim"].dump(),
                            json["ffn"].dump(), list(json["patch"], " x ")));
  entry("in and out", fmt::format("{} channels to {}, text {} wide", json["channels"].dump(),
                                  json["out_channels"].dump(), json["text_width"].dump()));
  const char* name = "files";
  for (const Json& file : json["files"]) {
    entry(std::exchange(name, ""),
          fmt::format("{}: {}, {}, {}", text_of(file["name"]), counted(file["tensors"], "tensor", "tensors"),
                      list(file["dtypes"], " and "), size(file["bytes"])));
  }
  entry("weights", json["fits"] == true ? "every tensor is there and has its shape" : "do not fit:");
  for (const Json& problem : json["problems"]) entry("", printable(text_of(problem), true));
}

void print_run(const Json& json) {
  fmt::print("{}: a run, {} of {} steps\n", text_of(json["path"]), number(json["step"]), number(json["steps"]));
  std::string metrics;
  if (!json["metrics"].is_null()) {
    for (const auto& [key, value] : json["metrics"].items()) {
      metrics += fmt::format("{}{} {}", metrics.empty() ? "" : ", ", key,
                             value.is_null()           ? "not a number"
                             : value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                                                       : value.dump());
    }
  }
  entry("metrics", metrics.empty() ? "none yet" : metrics);
  entry("checkpoints", json["latest"].is_null() ? "none yet"
                                                : fmt::format("{}; the latest is {}", list(json["checkpoints"], ", "),
                                                              text_of(json["latest"])));
  if (json["model"].is_null()) return;
  fmt::print("\n");
  print_model(json["model"]);
}

void inspect(const InspectOptions& options) {
  const Json json = std::filesystem::is_directory(options.path) ? look_at_folder(options.path)
                                                                : look_at_file(options.path, options.all);
  if (options.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (json["kind"] == "safetensors") {
    print_tensors(json, options.all);
  } else if (json["kind"] == "key lists") {
    print_lists(json);
  } else if (json["kind"] == "model") {
    print_model(json);
  } else {
    print_run(json);
  }
}

}  // namespace

void add_inspect(Verb& parser, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  Verb* verb = parser.add_subcommand("inspect", "says what is in a file of tensors, a model folder or a run");
  verb->add_option("path", options->path, "a .safetensors file, a model folder, or the folder of a run")->required();
  verb->add_flag("--all", options->all, "every tensor or head by itself");
  verb->add_flag("--json", options->json, "as JSON");
  verb->callback([options, &action] { action = [options] { inspect(*options); }; });
}

}  // namespace reel::app
