#include "reel/sim/search.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/error.h"

namespace reel::sim {

namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> result;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d * d != n) result.push_back(n / d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

// The ways to share a sample among `context` ranks.
std::vector<layout::Degrees> plans(const Model& m, std::int64_t context) {
  if (m.kind != "dit" || context == 1) return {{}};
  if (m.attention == "spatial-temporal")
    return {{.dsp = static_cast<int>(context)}, {.ulysses = static_cast<int>(context)}};
  std::vector<layout::Degrees> result;
  for (const std::int64_t u : divisors(context)) {
    result.push_back({.ulysses = static_cast<int>(u), .ring = static_cast<int>(context / u)});
  }
  return result;
}

}  // namespace

std::vector<Job> candidates(const Job& job, std::int64_t devices) {
  std::vector<Job> result;
  std::string reason, hint;
  const auto degrees = divisors(devices);
  const auto legal = [&](Job candidate) {
    if (const auto problem = finish(candidate)) {
      if (reason.empty()) reason = problem->what, hint = problem->hint;
      return false;
    }
    result.push_back(candidate);
    return true;
  };
  const bool dit = job.model.kind == "dit";
  for (const std::int64_t tensor : degrees) {
    for (const std::int64_t pipeline : degrees) {
      if (devices % (tensor * pipeline) != 0 || job.model.layers % pipeline != 0) continue;
      for (const std::int64_t context : degrees) {
        if (devices % (tensor * pipeline * context) != 0) continue;
        const std::int64_t data = devices / (tensor * pipeline * context);
        if (job.global_batch > 0 && job.global_batch % data != 0) continue;
        for (const layout::Degrees& plan : plans(job.model, context)) {
          for (const std::int64_t expert : job.model.moe() ? divisors(data * context) : std::vector<std::int64_t>{1}) {
            Job base = job;
            base.parallel.tensor = tensor, base.parallel.pipeline = pipeline, base.parallel.data = data;
            base.parallel.context = dit ? 1 : context, base.parallel.plan = plan, base.parallel.expert = expert;
            base.parallel.devices = devices, base.parallel.interleave = 1, base.micro_batch = 1;
            Job first = base;
            if (job.global_batch == 0) base.global_batch = 0;
            if (finish(first)) {
              legal(base);  // remembers why not
              continue;
            }
            const std::int64_t slice = first.global_batch / data;
            for (const std::int64_t interleave :
                 pipeline == 1 ? std::vector<std::int64_t>{1} : divisors(job.model.layers / pipeline)) {
              for (const std::int64_t micro : divisors(slice)) {
                base.parallel.interleave = interleave, base.micro_batch = micro, base.global_batch = first.global_batch;
                for (const char* recompute : {"none", "selective", "full"}) {
                  base.recompute = recompute;
                  if (base.recompute == "selective" && base.model.flash) continue;  // the same as none
                  legal(base);
                }
              }
            }
          }
        }
      }
    }
  }
  if (result.empty()) {
    throw Error(fmt::format("there is no legal way to cut this job over {} devices{}", devices,
                            reason.empty() ? "" : ": " + reason),
                hint);
  }
  return result;
}

SearchResult search(const Job& job, const cost::Cluster& cluster, std::int64_t devices, std::size_t keep,
                    const Options& options, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::vector<Job> all = candidates(job, devices);
  SearchResult found;
  found.legal = static_cast<std::int64_t>(all.size());
  std::vector<std::pair<double, std::size_t>> fitting;  // least seconds, candidate
  for (std::size_t i = 0; i < all.size(); ++i) {
    progress(static_cast<std::int64_t>(i), found.legal);
    const Outlook outlook = look_ahead(all[i], cluster, options);
    if (outlook.fits) fitting.emplace_back(outlook.least_seconds, i);
  }
  found.fitting = static_cast<std::int64_t>(fitting.size());
  std::sort(fitting.begin(), fitting.end());
  for (const auto& [least, i] : fitting) {
    if (found.best.size() == keep && least >= found.best.back().result.step_seconds)
      break;  // none behind can be faster
    Found next{all[i], simulate(all[i], cluster, options)};
    const auto place = std::upper_bound(found.best.begin(), found.best.end(), next, [](const Found& a, const Found& b) {
      return a.result.step_seconds < b.result.step_seconds;
    });
    found.best.insert(place, std::move(next));
    if (found.best.size() > keep) found.best.pop_back();
    ++found.timed;
  }
  progress(found.legal, found.legal);
  return found;
}

}  // namespace reel::sim
