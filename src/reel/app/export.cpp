// reel export: key lists in the forms that kernels of others read.
#include "reel/study/export.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "reel/app/app.h"
#include "reel/app/lists_file.h"
#include "reel/base/error.h"

namespace reel::app {

namespace {

struct ExportOptions {
  std::string lists, block;
  study::ExportInput in;
  bool cover = false;
};

// "128x64": queries x keys.
void parse_block(const std::string& text, study::ExportInput& in) {
  if (text.empty()) return;
  for (const auto& [name, rows, columns] : {std::tuple("64x64", 64, 64), {"128x64", 128, 64}, {"128x128", 128, 128}}) {
    if (text != name) continue;
    in.rows = rows, in.columns = columns;
    return;
  }
  throw Error(fmt::format("--block is '{}'", text), "queries x keys: 64x64, 128x64 or 128x128");
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void run_export(const ExportOptions& options) {
  study::ExportInput in = options.in;
  parse_block(options.block, in);
  if (in.rows > 0 && in.to != "flex" && in.to != "mask") {
    throw Error(fmt::format("--block with --to {}", in.to), "its blocks follow from the groups of the lists");
  }
  if (options.cover && in.to == "dsv")
    throw Error("--cover with --to dsv", "it takes single keys: nothing is lost anyway");
  in.fit = options.cover ? study::Fit::kCover : study::Fit::kBudget;
  const study::ChosenLists chosen = study::load_chosen_lists(options.lists);
  tell_assumed_order(options.lists, chosen.lists);
  in.chosen = &chosen;
  const study::Exported out = study::export_lists(in);
  fmt::print("{}: {}\n", in.path, out.what);
  fmt::print("pairs   {:.2f} % of all, the lists have {:.2f} %\n", 100 * out.pairs, 100 * out.listed_pairs);
  if (out.mass.empty()) {
    fmt::print("mass    not known: {} holds no weights, as 'reel study lists' writes them\n", options.lists);
  } else {
    const double lost = mean(out.listed_mass) - mean(out.mass);
    fmt::print("mass    {:.2f} % of the attention, the lists cover {:.2f} %: {:.2f} % {}\n", 100 * mean(out.mass),
               100 * mean(out.listed_mass), 100 * std::abs(lost),
               lost > -5e-5 ? "lost on the way" : "gained on the way");
  }
  const std::vector<std::int32_t>& groups = chosen.lists.group_starts;
  const bool ragged = groups != lists::uniform_groups(chosen.lists.queries(), groups[1]);
  if (ragged && (in.to == "vsa" || in.to == "dsv")) {
    fmt::print("groups of several sizes fit this form badly: choose a --tile that divides the grid\n");
  } else if (!out.mass.empty() && mean(out.listed_mass) - mean(out.mass) > 0.02 && chosen.lists.granularity == 1) {
    fmt::print("lists that are chosen in blocks lose less: reel study lists --block 64; or --cover loses nothing\n");
  }
  if (!chosen.lists.in_raster_order()) fmt::print("tokens are in the order of the tensor 'order': x[:, :, order]\n");
}

}  // namespace

void add_export(Verb& parser, Action& action) {
  auto options = std::make_shared<ExportOptions>();
  Verb* verb = parser.add_subcommand("export", "key lists in the form of other kernels");
  verb->add_option("lists", options->lists, "key lists, as reel study lists or --dump-masks write them")->required();
  verb->add_option("--to", options->in.to, "flex: torch FlexAttention; vsa: FastVideo; dsv: DSV's kernel; mask: blocks")
      ->required()
      ->one_of({"flex", "vsa", "dsv", "mask"});
  verb->add_option("--out", options->in.path, "safetensors to write")->required()->type_name("FILE")->to_write();
  verb->add_option("--block", options->block, "queries x keys of a block: 64x64, 128x64, 128x128; flex and mask")
      ->type_name("QxK");
  verb->add_flag("--cover", options->cover,
                 "every block with a listed key: loses nothing, computes more (flex: exact, with a mask of tokens)");
  verb->callback([options, &action] { action = [options] { run_export(*options); }; });
}

}  // namespace reel::app
