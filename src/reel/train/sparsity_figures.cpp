#include "reel/train/sparsity_figures.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "reel/base/sized.h"
#include "reel/data/png.h"
#include "reel/files/file.h"
#include "reel/predict/layer_scores.h"

namespace reel::train {

namespace {

constexpr std::size_t kMostColumns = 64;    // profile steps in a picture
constexpr std::int64_t kMostFrames = 24;    // pictures of one list
constexpr double kScores = 8e6;             // looked at in all: about a second of one core
constexpr std::int64_t kMostQueries = 64;   // of a head
constexpr std::int64_t kLongest = 1 << 17;  // tokens; beyond it tables of positions take too much memory
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

// Rows of RUN/sparsity.jsonl, from the first to the last. A line has ten numbers a head: only those shown are parsed.
std::vector<report::MetricRow> profile_rows(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_file(path);
  std::vector<std::string_view> lines;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != text.npos; at = end + 1) {
    lines.push_back(std::string_view(text).substr(at, end + 1 - at));
  }
  const std::size_t shown = std::min(lines.size(), kMostColumns);
  std::string kept;
  for (std::size_t i = 0; i < shown; ++i) kept += lines[shown == 1 ? 0 : i * (lines.size() - 1) / (shown - 1)];
  return report::parse_metrics(kept).rows;
}

// The same step with longer clips, run by ghosts.
std::vector<report::AttentionFigures::Length> attention_by_length(const RunConfig& config) {
  std::vector<report::AttentionFigures::Length> lengths;
  for (const std::int64_t times : {1, 2, 4, 8}) {
    RunConfig longer = config;
    longer.video.frames *= times;
    longer.train.batch = longer.train.accumulate = 1;
    longer.train.recompute = false;
    if (!lengths.empty() && times * lengths.front().tokens > kLongest) break;
    const StepNeed need = step_need(longer);
    lengths.push_back({longer.video.frames, need.tokens, need.self_attention_share()});
  }
  return lengths;
}

// Two or three heads to draw: of those that are sparse the ones that need the fewest keys, the most, and one between.
// Where lists follow a fixed rule all heads have them.
std::vector<std::pair<int, std::int64_t>> drawn_heads(const sparsity::Controller& s) {
  std::vector<std::pair<int, std::int64_t>> heads;
  for (int layer = 0; layer < static_cast<int>(s.shape().layers); ++layer) {
    for (std::int64_t h = 0; h < s.shape().heads; ++h) {
      if (s.config().mode != "dynamic" || s.head(layer, h).sparse != 0) heads.emplace_back(layer, h);
    }
  }
  std::stable_sort(heads.begin(), heads.end(), [&](const auto& a, const auto& b) {
    return s.head(a.first, a.second).needed_predicted < s.head(b.first, b.second).needed_predicted;
  });
  if (heads.size() > 3) heads = {heads.front(), heads[heads.size() / 2], heads.back()};
  return heads;
}

// A forward pass that looks at every self-attention on its way.
class Looking : public model::Context {
 public:
  Looking(tape::Tape& on, Trainer& trainer)
      : Context(on, {.step = trainer.steps_done()}, trainer.sparsity()),
        controller_(*trainer.sparsity()),
        config_(trainer.config()),
        order_(token_order(config_)),
        drawn_(drawn_heads(controller_)) {
    // Behind the middle of the clip: with given frames at its beginning, among those that are made.
    const auto& grid = order_.grid;
    const std::int64_t token = (grid[0] * 3 / 4 * grid[1] + grid[1] / 2) * grid[2] + grid[2] / 2;
    group_ = std::upper_bound(order_.group_starts.begin(), order_.group_starts.end(), order_.place[sized(token)]) -
             order_.group_starts.begin() - 1;
    before_ = std::exchange(controller_.on_lists,
                            [this](int layer, const lists::KeyLists& chosen) { take_lists(layer, chosen); });
  }
  ~Looking() override { controller_.on_lists = std::move(before_); }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

  tape::Tensor attend(int layer, const tape::Tensor& q, const tape::Tensor& k, const tape::Tensor& v,
                      const predict::Origin& origin, const model::Here& here) override {
    const tape::Tensor out = Context::attend(layer, q, k, v, origin, here);
    const double pairs = static_cast<double>(config_.model.layers * q.dim(2) * q.dim(1));
    const predict::LayerInput in{
        .tokens = q.dim(1),
        .heads = q.dim(2),
        .head_dim = q.dim(3),
        .q = q.data(),
        .k = k.data(),
        .v = v.data(),
        .grid = order_.grid,
        .raster = order_.raster,
        .queries = std::clamp(static_cast<std::int64_t>(kScores / pairs), std::int64_t{1}, kMostQueries),
        .seed = static_cast<std::uint64_t>(layer)};
    scores_.push_back(predict::look_at_scores(in, tape.threads()));
    for (auto& [head, keys] : lists_) heads_.push_back(seen_head(in, layer, head, keys));
    lists_.clear();
    return out;
  }

  report::GroupKeys group(std::span<const float> clip, const data::Format& format) const;
  report::AttentionFigures figures() const {
    report::AttentionFigures figures = attention_figures(scores_);
    figures.tokens = order_.tokens();
    return figures;
  }

 private:
  std::pair<std::int64_t, std::int64_t> group_tokens() const {
    return {order_.group_starts[sized(group_)], order_.group_starts[sized(group_) + 1]};
  }

  void take_lists(int layer, const lists::KeyLists& chosen) {
    for (const auto& [drawn_layer, head] : drawn_) {
      if (drawn_layer != layer || chosen.dense(0, head)) continue;
      REEL_CHECK(chosen.group_starts == order_.group_starts);
      chosen.tokens(0, head, group_, lists_[head]);
    }
  }

  report::GroupKeys::Head seen_head(const predict::LayerInput& in, int layer, std::int64_t head,
                                    const std::vector<std::int32_t>& keys) {
    const auto [first, last] = group_tokens();
    std::vector<std::int32_t> rows;
    for (std::int64_t i = first; i < last; ++i) rows.push_back(static_cast<std::int32_t>(i));
    const Buffer<float> weights = predict::score_rows(in, head, rows, tape.threads());
    report::GroupKeys::Head seen{layer, static_cast<int>(head), {}, 0};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const std::int32_t key : keys) {
        seen.covered +=
            static_cast<double>(weights[i * sized(in.tokens) + sized(key)]) / static_cast<double>(rows.size());
      }
    }
    for (const std::int32_t key : keys) seen.keys.push_back(order_.raster[sized(key)]);
    return seen;
  }

  sparsity::Controller& controller_;
  const RunConfig& config_;
  lists::TokenOrder order_;
  std::vector<std::pair<int, std::int64_t>> drawn_;
  std::function<void(int, const lists::OrderedLists&)> before_;  // who else wants lists, but not these
  std::int64_t group_ = 0;
  std::map<std::int64_t, std::vector<std::int32_t>> lists_;  // of the layer at hand: keys in tile order
  std::vector<report::GroupKeys::Head> heads_;
  std::vector<predict::LayerScores> scores_;
};

report::GroupKeys Looking::group(std::span<const float> clip, const data::Format& format) const {
  report::GroupKeys group;
  group.width = static_cast<int>(format.width);
  group.height = static_cast<int>(format.height);
  group.grid = order_.grid;
  group.heads = heads_;
  const auto [first, last] = group_tokens();
  group.group.assign(order_.raster.begin() + first, order_.raster.begin() + last);
  std::set<std::int64_t> shown = {order_.position(first)[0]};
  for (std::int64_t i = 0; i < std::min(kMostFrames, group.grid[0]); ++i) {
    shown.insert(i * group.grid[0] / std::min(kMostFrames, group.grid[0]));
  }
  const std::vector<data::Image> images = data::images_of(clip, format);
  for (const std::int64_t frame : shown) {
    group.frames.push_back({frame, data::png_bytes(images[sized(frame * config_.model.patch[0])])});
  }
  return group;
}

}  // namespace

report::AttentionFigures attention_figures(std::span<const predict::LayerScores> parts) {
  using predict::LayerScores;
  const auto means = [](std::vector<double> sums, std::int64_t count) {
    for (double& x : sums) x = count > 0 ? x / static_cast<double>(count) : kNotKnown;
    return sums;
  };
  const auto summed = [](std::vector<double> pieces) {
    for (std::size_t i = 1; i < pieces.size(); ++i) pieces[i] += pieces[i - 1];
    return pieces;
  };
  report::AttentionFigures figures;
  figures.bins_per_decade = LayerScores::kBinsPerDecade;
  figures.few = LayerScores::kFew;
  figures.kept.assign(LayerScores::kKept.begin(), LayerScores::kKept.end());
  figures.curve.assign(LayerScores::kCurve.begin(), LayerScores::kCurve.end());
  LayerScores all;
  for (const LayerScores& part : parts) {
    all.add(part);
    figures.queries = std::max(figures.queries, part.queries);
    figures.layers.push_back({means(part.histogram, part.queries), means({part.concentrated}, part.queries)[0],
                              means(part.carried, part.queries), summed(means(part.critical_at, part.queries))});
  }
  figures.error_critical = means(all.error_critical, all.queries);
  figures.error_random = means(all.error_random, all.queries);
  figures.critical_within = summed(means(all.critical_at, all.queries));
  figures.all_within = summed(means(all.all_at, all.queries));
  return figures;
}

report::SparsitySummary sparsity_summary(const std::string& run, Trainer& trainer, data::Source& source,
                                         const StepNeed& need) {
  const RunConfig& c = trainer.config();
  report::SparsitySummary summary;
  summary.mode = c.sparsity.mode;
  summary.attention_share = need.self_attention_share();
  summary.heads = profile_rows(run + "/sparsity.jsonl");
  data::Clip clip;
  if (source.size(data::Split::kValidation) > 0 && source.read(data::Split::kValidation, 0, clip)) {
    const diffusion::Draws draws{0, kValidationStep, 0};
    data::Batch batch;
    batch.values = std::move(clip.values);
    batch.text = std::move(clip.text);
    tape::Pool pool;
    tape::Tape tape(trainer.threads(), pool, {.gradients = false});
    Looking looking(tape, trainer);
    Objective(c).loss(looking, trainer.model(), batch, 1, draws, false);
    summary.group = looking.group(batch.values, source.format());
    summary.figures = looking.figures();
    summary.figures.noise = kind_of(c) == diffusion::Kind::kFlow
                                ? static_cast<double>(diffusion::draw_flow_times(c.diffusion, draws, 1)[0])
                                : kNotKnown;
  }
  summary.figures.lengths = attention_by_length(c);
  return summary;
}

}  // namespace reel::train
