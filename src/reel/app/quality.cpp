#include "reel/app/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "reel/app/measure.h"

namespace reel::app {

namespace {

// Below this the gain itself is noise: shares of it say nothing.
constexpr double kLeastGain = 0.1;
// An arm that loses no more than this is as good as what it is compared with.
constexpr double kMayLose = 0.03, kMayLoseOfLoss = 0.01;

using Value = std::function<double(const QualityRun&)>;

Spread spread(const Quality& quality, const std::string& arm, const Value& value) {
  double sum = 0, low = INFINITY, high = -INFINITY;
  for (const std::int64_t seed : quality.seeds) {
    const QualityRun* run = quality.run(arm, seed);
    const double each = run != nullptr ? value(*run) : std::nan("");
    if (std::isnan(each)) return {each, each, each};
    sum += each;
    low = std::min(low, each);
    high = std::max(high, each);
  }
  return {sum / static_cast<double>(quality.seeds.size()), low, high};
}

double loss_of(const Quality& quality, const char* arm, std::int64_t seed) {
  const QualityRun* run = quality.run(arm, seed);
  return run != nullptr ? run->loss : std::nan("");
}

double lost(const Quality& quality, std::int64_t seed, double loss) {
  const double dense = loss_of(quality, "dense", seed);
  return (loss - dense) / (loss_of(quality, "own", seed) - dense);
}

bool is_control(const std::string& arm) { return arm == "random" || arm == "window" || arm == "static"; }

const ArmSummary* find(const std::vector<ArmSummary>& arms, const std::string& name) {
  const auto at = std::find_if(arms.begin(), arms.end(), [&](const ArmSummary& each) { return each.arm == name; });
  return at != arms.end() ? &*at : nullptr;
}

bool gains_nothing(const ArmSummary* own) { return own != nullptr && own->over_dense.mean < kLeastGain; }

bool as_good(const ArmSummary& arm, const ArmSummary& dynamic) {
  if (!std::isnan(arm.lost.mean)) return arm.lost.mean <= std::max(0.0, dynamic.lost.mean) + kMayLose;
  return arm.over_dense.mean <= std::max(0.0, dynamic.over_dense.mean) + kMayLoseOfLoss;
}

std::string in_percent(const Spread& s) {
  if (std::isnan(s.mean)) return "-";
  if (s.low == s.high) return fmt::format("{:.1f} %", 100 * s.mean);
  return fmt::format("{:.1f} % ({:.1f} to {:.1f})", 100 * s.mean, 100 * s.low, 100 * s.high);
}

std::string number(const Spread& s) {
  if (s.low == s.high) return fmt::format("{:.4f}", s.mean);
  return fmt::format("{:.4f} ({:.4f} to {:.4f})", s.mean, s.low, s.high);
}

double mean_psnr(const QualityRun* run, double RestoredPictures::*of) {
  if (run == nullptr || run->restored.empty()) return std::nan("");
  double sum = 0;
  for (const RestoredPictures& each : run->restored) sum += each.*of;
  return sum / static_cast<double>(run->restored.size());
}

nlohmann::ordered_json to_json(const Spread& s) { return {{"mean", s.mean}, {"low", s.low}, {"high", s.high}}; }

}  // namespace

const QualityRun* Quality::run(const std::string& arm, std::int64_t seed) const {
  for (const QualityRun& each : runs) {
    if (each.arm == arm && each.seed == seed) return &each;
  }
  return nullptr;
}

std::vector<ArmSummary> summarise(const Quality& quality) {
  std::vector<ArmSummary> out;
  for (const std::string& arm : quality.arms) {
    const auto of = [&](const Value& value) { return spread(quality, arm, value); };
    out.push_back(
        {.arm = arm,
         .loss = of([](const QualityRun& r) { return r.loss; }),
         .loss_dense = of([](const QualityRun& r) { return r.loss_dense; }),
         .over_dense = of([&](const QualityRun& r) { return r.loss / loss_of(quality, "dense", r.seed) - 1; }),
         .lost = of([&](const QualityRun& r) { return lost(quality, r.seed, r.loss); }),
         .lost_dense = of([&](const QualityRun& r) { return lost(quality, r.seed, r.loss_dense); }),
         .kept = of([](const QualityRun& r) { return r.kept; }),
         .sparse_from = of(
             [](const QualityRun& r) { return r.sparse_from < 0 ? std::nan("") : static_cast<double>(r.sparse_from); }),
         .psnr = mean_psnr(quality.run(arm, quality.seeds.front()), &RestoredPictures::psnr)});
  }
  return out;
}

bool needs_dynamic(const Quality& quality) {
  const std::vector<ArmSummary> arms = summarise(quality);
  if (gains_nothing(find(arms, "own"))) return false;
  const ArmSummary* dynamic = find(arms, "dynamic");
  return dynamic == nullptr || std::none_of(arms.begin(), arms.end(), [&](const ArmSummary& each) {
           return (is_control(each.arm) || each.arm == "own") && as_good(each, *dynamic);
         });
}

std::vector<std::string> findings(const Quality& quality) {
  const std::vector<ArmSummary> arms = summarise(quality);
  const ArmSummary *own = find(arms, "own"), *dynamic = find(arms, "dynamic");
  std::vector<std::string> out;
  if (gains_nothing(own)) {
    out.push_back(
        fmt::format("the data does not need dynamic attention: the own tile alone is within {:.1f} % of dense, and "
                    "shares of so small a gain say nothing",
                    100 * own->over_dense.mean));
  } else if (dynamic != nullptr) {
    for (const ArmSummary& each : arms) {
      if ((is_control(each.arm) || each.arm == "own") && as_good(each, *dynamic))
        out.push_back(fmt::format("the data does not need dynamic attention: {} does as well", each.arm));
    }
  }
  if (own != nullptr && !gains_nothing(own)) {
    out.push_back(fmt::format("attention beyond the own tile brings the loss from {:.3f} to {:.3f}", own->loss.mean,
                              arms.front().loss.mean));
  }
  if (const ArmSummary* twin = find(arms, "twin"); twin != nullptr) {
    out.push_back(fmt::format("chance: dense again, with a learning rate 0.1 % higher, ends {} over dense",
                              in_percent(twin->over_dense)));
  }
  for (const ArmSummary& each : arms) {
    if (each.arm != "dynamic" && !is_control(each.arm)) continue;
    const std::string keys = fmt::format("{} at {:.1f} % of the keys", each.arm, 100 * each.kept.mean);
    if (std::isnan(each.lost.mean)) {
      out.push_back(fmt::format("{}: loss {:.3f}, {} over dense ({:.3f})", keys, each.loss.mean,
                                in_percent(each.over_dense), arms.front().loss.mean));
    } else {
      out.push_back(fmt::format("{} loses {} of that gain, {} evaluated with dense attention", keys,
                                in_percent(each.lost), in_percent(each.lost_dense)));
    }
  }
  if (!std::isnan(arms.front().psnr)) {
    std::vector<std::string> restored;
    for (const ArmSummary& each : arms) {
      if (!std::isnan(each.psnr)) restored.push_back(fmt::format("{} {:.1f}", each.arm, each.psnr));
    }
    out.push_back(fmt::format("held-out clips that are noised to {:.1f} dB are restored to {} dB",
                              mean_psnr(quality.run("dense", quality.seeds.front()), &RestoredPictures::psnr_noised),
                              fmt::join(restored, ", ")));
  }
  return out;
}

std::string budget_of(const Quality& quality) {
  if (quality.keys > 0) return fmt::format("{:.0f} % of the keys, break-even 1 (not about speed)", 100 * quality.keys);
  return "as many keys as heads need, all where that gains little";
}

std::vector<std::string> quality_columns() {
  return {"arm",
          "loss",
          "evaluated dense",
          "over dense",
          "gain lost",
          "gain lost, evaluated dense",
          "keys kept",
          "half of the heads sparse from step",
          "restored, dB"};
}

std::vector<std::vector<std::string>> quality_rows(const Quality& quality) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmSummary& each : summarise(quality)) {
    const Spread& from = each.sparse_from;
    rows.push_back({each.arm, number(each.loss), number(each.loss_dense), in_percent(each.over_dense),
                    in_percent(each.lost), in_percent(each.lost_dense), in_percent(each.kept),
                    std::isnan(from.mean)   ? "-"
                    : from.low == from.high ? fmt::format("{}", from.low)
                                            : fmt::format("{} to {}", from.low, from.high),
                    std::isnan(each.psnr) ? "-" : fmt::format("{:.1f}", each.psnr)});
  }
  return rows;
}

std::string quality_json(const Quality& quality) {
  nlohmann::ordered_json arms = nlohmann::json::array(), rows = nlohmann::json::array();
  for (const ArmSummary& each : summarise(quality)) {
    arms.push_back({{"arm", each.arm},
                    {"loss", to_json(each.loss)},
                    {"loss_evaluated_dense", to_json(each.loss_dense)},
                    {"over_dense", to_json(each.over_dense)},
                    {"gain_lost", to_json(each.lost)},
                    {"gain_lost_evaluated_dense", to_json(each.lost_dense)},
                    {"kept_keys", to_json(each.kept)},
                    {"sparse_from", to_json(each.sparse_from)},
                    {"restored_psnr", each.psnr}});
  }
  for (const QualityRun& each : quality.runs) {
    nlohmann::ordered_json curve = nlohmann::json::array();
    for (const QualityRun::Point& p : each.curve) {
      curve.push_back(
          {{"step", p.step}, {"validation_loss", p.loss}, {"kept_keys", p.kept}, {"sparse_heads", p.sparse}});
    }
    nlohmann::ordered_json restored = nlohmann::json::array();
    for (const RestoredPictures& r : each.restored)
      restored.push_back({{"clip", r.clip}, {"psnr_noised", r.psnr_noised}, {"psnr", r.psnr}});
    rows.push_back({{"case", fmt::format("{} seed {}", each.arm, each.seed)},
                    {"seconds", each.seconds},
                    {"arm", each.arm},
                    {"seed", each.seed},
                    {"loss", each.loss},
                    {"loss_evaluated_dense", each.loss_dense},
                    {"gain_lost", lost(quality, each.seed, each.loss)},
                    {"gain_lost_evaluated_dense", lost(quality, each.seed, each.loss_dense)},
                    {"kept_keys", each.kept},
                    {"break_even", each.break_even},
                    {"sparse_from", each.sparse_from},
                    {"skipped_steps", each.skipped},
                    {"restored", restored},
                    {"curve", curve}});
  }
  const nlohmann::ordered_json all = {{"machine", to_json(quality.machine)},
                                      {"model", quality.model},
                                      {"steps", quality.steps},
                                      {"tokens", quality.tokens},
                                      {"validation_clips", quality.clips},
                                      {"keys", quality.keys},
                                      {"break_even", quality.keys > 0 ? nlohmann::json(1) : nlohmann::json()},
                                      {"restore_level", quality.restore_level},
                                      {"seeds", quality.seeds},
                                      {"needs_dynamic_attention", needs_dynamic(quality)},
                                      {"findings", findings(quality)},
                                      {"arms", arms},
                                      {"rows", rows},
                                      {"configuration", quality.configuration}};
  return all.dump(1) + "\n";
}

}  // namespace reel::app
