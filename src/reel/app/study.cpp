// reel study: how sparse given attention is and who finds its keys (of a run: study_run.cpp); reel study lists: key
// lists for it.
#include "reel/app/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "reel/app/app.h"
#include "reel/app/measure.h"
#include "reel/base/error.h"
#include "reel/base/progress.h"
#include "reel/base/timer.h"
#include "reel/cost/machine.h"
#include "reel/files/file.h"
#include "reel/sparsity/break_even.h"
#include "reel/study/chosen_lists.h"

namespace reel::app {

namespace {

struct StudyOptions {
  std::string file, grid, tile = "4x4x4", report, json;
  double mass = 0.9;
  int threads = default_threads();
  // lists
  study::ChooseListsInput lists;
  std::string out;
};

// "21x30x52"
std::vector<std::int64_t> parse_grid(const char* option, const std::string& text) {
  std::vector<std::int64_t> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > (std::int64_t{1} << 31)) break;
    sizes.push_back(size);
    at = stop;
    if (at == end || (*at != 'x' && *at != 'X')) break;
    ++at;
  }
  if (sizes.size() != 3 || at != end) {
    throw Error(fmt::format("{} is '{}'", option, text), "frames x rows x columns in tokens, as 21x30x52");
  }
  return sizes;
}

std::vector<std::int64_t> grid_of(const StudyOptions& options) {
  return options.grid.empty() ? std::vector<std::int64_t>() : parse_grid("--grid", options.grid);
}

lists::TokenOrder order_of(const study::QkFile& file, const StudyOptions& options) {
  const std::vector<std::int64_t> tile = parse_grid("--tile", options.tile);
  if (tile[0] * tile[1] * tile[2] > 4096) {
    throw Error(fmt::format("--tile {}: {} queries would share a list", options.tile, tile[0] * tile[1] * tile[2]),
                "tiles of 64 tokens are usual: 4x4x4");
  }
  return file.order(grid_of(options), tile);
}

// How much is looked at: bounded work for any size; 75,000 tokens of 40 heads get 4 groups and 16 queries a head, up to
// 2,048 tokens of a few heads all of both.
std::int64_t within(double budget, double each, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(budget / each), least, most);
}

void find_break_even(Study& study, Threads& threads) {
  study.break_even = std::numeric_limits<double>::quiet_NaN();
  if (!std::filesystem::exists(cost::machine_path())) {
    study.break_even_note =
        fmt::format("break-even is not known: there is no Machine file at {}; 'reel doctor --measure' makes it",
                    cost::machine_path());
  } else if (study.head_dim % 8 != 0 || study.head_dim > 256) {
    study.break_even_note = fmt::format(
        "break-even is not known: attention here computes heads of 8, 16, ... 256 numbers, not {}", study.head_dim);
  } else {
    study.break_even = static_cast<double>(
        sparsity::break_even_for(cost::break_even_path(), study.tokens, study.head_dim, threads).share);
  }
}

void run_study(const StudyOptions& options) {
  if (!(options.mass > 0 && options.mass < 1)) {
    throw Error(fmt::format("--mass is {}", options.mass), "use a share between 0 and 1, as 0.9");
  }
  Threads threads(options.threads);
  const Timer timer;
  const study::QkFile file = study::QkFile::open(options.file);
  const lists::TokenOrder order = order_of(file, options);
  Study study;
  study.path = options.file;
  study.tokens = file.tokens();
  study.head_dim = file.head_dim();
  study.grid = grid_of(options);
  if (!study.grid.empty()) study.tile = parse_grid("--tile", options.tile);
  study.mass = options.mass;
  const double scores = static_cast<double>(file.heads()) * static_cast<double>(file.tokens());
  const std::int64_t all = (std::int64_t{1} << 22) / file.tokens();
  study.groups = std::min(order.groups(), within(8e8, 64 * scores, 2, std::max<std::int64_t>(16, all / 64)));
  study.queries = std::min(file.tokens(), within(5e7, scores, 8, std::max<std::int64_t>(64, all)));
  find_break_even(study, threads);
  std::optional<study::HiddenFit> fit;
  if (file.width() > 0) fit = study::fit_hidden(file, order, threads);
  {
    Progress progress("study", file.heads());
    for (std::int64_t h = 0; h < file.heads(); ++h) {
      const Buffer<float> q = file.head("q", h, order.raster, threads), k = file.head("k", h, order.raster, threads);
      const Buffer<float> v = file.has_values() ? file.head("v", h, order.raster, threads) : Buffer<float>();
      const study::LowPair hidden =
          fit ? fit->fit(q.data(), k.data(), file.head_dim(), study::kHiddenRank, threads) : study::LowPair{};
      study.heads.push_back(study::study_head({.order = &order,
                                               .head_dim = file.head_dim(),
                                               .q = q.data(),
                                               .k = k.data(),
                                               .v = v.data(),
                                               .hidden = fit ? &hidden : nullptr,
                                               .mass = study.mass,
                                               .size = study.size,
                                               .groups = study.groups,
                                               .queries = study.queries,
                                               .seed = static_cast<std::uint64_t>(h)},
                                              threads));
      progress.update(h + 1);
    }
  }
  print_study(study);
  fmt::print("{:.1f} s, {:.2f} GB at most, pages of the file included\n", timer.seconds(), peak_resident() / 1e9);
  if (!options.json.empty()) write_file_atomically(options.json, study_json(study).dump(2) + "\n");
  if (!options.report.empty()) {
    write_page(study, options.report);
    fmt::print("page: {}\n", options.report);
  }
}

void run_lists(StudyOptions options) {
  Threads threads(options.threads);
  const Timer timer;
  const study::QkFile file = study::QkFile::open(options.file);
  const lists::TokenOrder order = order_of(file, options);
  options.lists.file = &file;
  options.lists.order = &order;
  Progress progress("lists", file.heads());
  options.lists.on_head = [&](std::int64_t head) { progress.update(head); };
  study::ChosenLists chosen = study::choose_lists(options.lists, threads);
  progress.erase();
  if (!options.grid.empty()) {
    chosen.notes["grid"] = options.grid;
    chosen.notes["tile"] = options.tile;
  }
  study::save(chosen, options.out);
  double covered = 0;
  const std::vector<double> mass = study::covered_mass(chosen, study::query_rows(chosen.lists));
  for (const double each : mass) covered += each / static_cast<double>(mass.size());
  fmt::print("{}: {} heads, {} groups of queries, {:.2f} % of all pairs, chosen {} by {}\n", options.out,
             chosen.lists.heads, chosen.lists.groups(), 100 * chosen.lists.density(),
             options.lists.block == 1 ? "key by key" : "in blocks of 64", options.lists.predictor);
  fmt::print("they cover {:.1f} % of the true attention ({:.1f} to {:.1f} % by head, from {} groups of each)\n",
             100 * covered, 100 * *std::min_element(mass.begin(), mass.end()),
             100 * *std::max_element(mass.begin(), mass.end()), chosen.seen_groups.size());
  fmt::print("{:.1f} s, {:.2f} GB at most, pages of the file included\n", timer.seconds(), peak_resident() / 1e9);
}

}  // namespace

void add_study(Verb& parser, Action& action) {
  auto options = std::make_shared<StudyOptions>();
  Verb* verb =
      parser.add_subcommand("study",
                            "how sparse the attention of given q and k is, or how well predictors find the keys "
                            "of a run; study lists: key lists for q and k");
  const std::string qk = "safetensors: q, k and, if wanted, v [heads, tokens, head_dim] after RoPE; hidden";
  const auto add_common = [&](Verb* sub, const std::string& help) {
    Option* file = sub->add_option("file", options->file, help);
    sub->add_option("--grid", options->grid, "frames x rows x columns in tokens, as 21x30x52; without: tokens in order")
        ->type_name("TxHxW");
    sub->add_option("--tile", options->tile, "of the grid, whose queries share a list")
        ->type_name("TxHxW")
        ->capture_default_str();
    sub->add_option("--threads", options->threads, "threads")->between(1, 1024);
    return file;
  };
  add_common(verb, "folder of a training run; or " + qk);
  verb->add_option("--mass", options->mass, "share of the attention that keys shall carry")->capture_default_str();
  verb->add_option("--report", options->report, "write a page with curves and maps there")
      ->type_name("FILE.html")
      ->to_write();
  verb->add_option("--json", options->json, "write all numbers there")->type_name("FILE.json")->to_write();

  Verb* lists = verb->add_subcommand("lists", "chooses the keys of every query group and writes key lists");
  add_common(lists, qk)->required();
  lists->add_option("--keys", options->lists.keys, "share of the keys in a list, own tile included")
      ->capture_default_str();
  lists->add_option("--predictor", options->lists.predictor, "what chooses the keys: qk, hidden or true")
      ->capture_default_str();
  lists->add_option("--out", options->out, "safetensors to write")->required()->type_name("FILE")->to_write();
  lists->add_option("--block", options->lists.block, "keys that are chosen together: 1, or 64 for kernels over blocks")
      ->capture_default_str();
  lists->add_option("--rank", options->lists.rank, "numbers of a predicted query; 0: qk by its spectrum, hidden 32")
      ->between(0, 4096);
  lists->add_option("--samples", options->lists.samples, "queries of a group that are scored; 0: all, 16 is faster")
      ->between(0, 4096);
  lists->callback([options, &action] { action = [options] { run_lists(*options); }; });

  verb->callback([options, verb, &action] {
    if (verb->subcommand_given()) return;
    if (options->file.empty()) throw Error("study needs a file", "reel study qk.safetensors --grid 21x30x52");
    action = [options, verb] {
      if (!std::filesystem::is_directory(options->file)) return run_study(*options);
      for (const char* only : {"--grid", "--tile", "--mass", "--report"}) {
        if (verb->given(only)) {
          throw Error(fmt::format("{} is for a file of q and k, not for a run", only), "the run says it itself");
        }
      }
      study_run(options->file, options->json, options->threads);
    };
  });
}

}  // namespace reel::app
