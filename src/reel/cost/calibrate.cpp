#include "reel/cost/calibrate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "reel/base/error.h"

namespace reel::cost {

namespace {

struct Scalar {
  std::string key;
  double* value;
};

std::vector<Scalar> scalars(Fabric& f) {
  std::vector<Scalar> all;
  for (std::size_t p = 0; p < 3; ++p) {
    all.push_back({fmt::format("fabric.base[{}]", p), &f.base[p]});
    all.push_back({fmt::format("fabric.intra_latency[{}]", p), &f.intra_latency[p]});
    all.push_back({fmt::format("fabric.intra_bandwidth[{}]", p), &f.intra_bandwidth[p]});
  }
  for (const auto& [key, value] : {std::pair("fabric.process", &f.process),
                                   {"fabric.inter_latency", &f.inter_latency},
                                   {"fabric.inter_bandwidth", &f.inter_bandwidth},
                                   {"fabric.inter_bandwidth_ll", &f.inter_bandwidth_ll},
                                   {"fabric.reduce_bandwidth", &f.reduce_bandwidth},
                                   {"fabric.nvls_bandwidth", &f.nvls_bandwidth},
                                   {"fabric.pairs", &f.pairs},
                                   {"fabric.send", &f.send},
                                   {"fabric.send_intra", &f.send_intra}}) {
    all.push_back({key, value});
  }
  std::erase_if(all, [](const Scalar& scalar) { return *scalar.value <= 0; });  // 0: the fabric has no such thing
  return all;
}

constexpr double kError = 0.05;   // weighs as much as
constexpr double kPull = 1;       // this far from where a scalar was, in its logarithm
constexpr double kSmall = 0.5;    // weight of a call below 1 MB
constexpr double kOutlier = 0.3;  // errors beyond this (in the logarithm) do not pull any harder
constexpr int kIterations = 40;

// Whether one process drove all devices of a node is not known. If it did, the smallest calls take as long as it needs
// to start them one after the other; if not, they take longer than this, and it is harmless. 0: no small calls.
double process_in(const std::vector<MeasuredCall>& calls) {
  constexpr double kSmallCall = 64e3;
  double least = INFINITY;
  for (const MeasuredCall& call : calls) {
    const auto per_node = static_cast<double>(std::min(call.call.per_node, call.call.devices));
    if (call.call.bytes <= kSmallCall) least = std::min(least, call.seconds / per_node);
  }
  return std::isinf(least) ? 0 : least;
}

// Logarithms of the scalars relative to where they were, and the residuals they give.
class Problem {
 public:
  Problem(const Cluster& cluster, const std::vector<MeasuredCall>& calls) : cluster_(cluster), calls_(&calls) {
    cluster_.fabric.process = process_in(calls);
    for (const Scalar& scalar : scalars(cluster_.fabric)) start_.push_back(*scalar.value);
  }

  std::size_t size() const { return start_.size(); }

  const Cluster& at(const std::vector<double>& x) {
    const std::vector<Scalar> all = scalars(cluster_.fabric);
    for (std::size_t i = 0; i < all.size(); ++i) {
      *all[i].value = start_[i] * std::exp(x[i]);
      if (all[i].key == "fabric.pairs" || all[i].key.starts_with("fabric.send"))
        *all[i].value = std::min(1.0, *all[i].value);
    }
    return cluster_;
  }

  std::vector<double> residuals(const std::vector<double>& x) {
    at(x);
    std::vector<double> r;
    r.reserve(calls_->size() + x.size());
    for (const MeasuredCall& call : *calls_) {
      const double error = std::log(cost_of(cluster_, call.call).seconds / call.seconds);
      r.push_back(std::clamp(error, -kOutlier, kOutlier) / kError * (call.call.bytes < (1 << 20) ? kSmall : 1));
    }
    for (const double moved : x) r.push_back(moved / kPull);
    return r;
  }

 private:
  Cluster cluster_;
  const std::vector<MeasuredCall>* calls_;
  std::vector<double> start_;
};

double squared(const std::vector<double>& r) {
  double sum = 0;
  for (const double value : r) sum += value * value;
  return sum;
}

// Solves (a + damping * diagonal(a)) x = b for a symmetric positive a of n x n, by Cholesky.
std::vector<double> solve(std::vector<double> a, std::vector<double> b, double damping) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] *= 1 + damping;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    a[j * n + j] = std::sqrt(std::max(a[j * n + j], 1e-12));
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i * n + j] -= a[i * n + k] * a[j * n + k];
      a[i * n + j] /= a[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

// Levenberg and Marquardt's descent with differences for derivatives.
std::vector<double> minimise(Problem& problem) {
  constexpr double kStep = 1e-4;
  const std::size_t n = problem.size();
  std::vector<double> x(n, 0), r = problem.residuals(x);
  double cost = squared(r), damping = 1e-2;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<std::vector<double>> columns;
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<double> moved = x;
      moved[j] += kStep;
      columns.push_back(problem.residuals(moved));
      for (std::size_t i = 0; i < r.size(); ++i) columns[j][i] = (columns[j][i] - r[i]) / kStep;
    }
    std::vector<double> normal(n * n), gradient(n);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < r.size(); ++i) gradient[j] -= columns[j][i] * r[i];
      for (std::size_t k = 0; k <= j; ++k) {
        double sum = 0;
        for (std::size_t i = 0; i < r.size(); ++i) sum += columns[j][i] * columns[k][i];
        normal[j * n + k] = normal[k * n + j] = sum;
      }
    }
    bool better = false;
    for (int attempt = 0; attempt < 8 && !better; ++attempt) {
      const std::vector<double> step = solve(normal, gradient, damping);
      std::vector<double> next = x;
      for (std::size_t j = 0; j < n; ++j) next[j] += step[j];
      std::vector<double> at_next = problem.residuals(next);
      const double next_cost = squared(at_next);
      better = next_cost < cost;
      if (better) {
        const bool done = cost - next_cost < 1e-7 * cost;
        x = std::move(next), r = std::move(at_next), cost = next_cost, damping *= 0.3;
        if (done) return x;
      } else {
        damping *= 4;
      }
    }
    if (!better) break;
  }
  return x;
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string list(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) text += (text.size() > 1 ? ", " : "") + number(value);
  return text + "]";
}

}  // namespace

double mean_error(const Cluster& cluster, const std::vector<MeasuredCall>& calls) {
  double sum = 0;
  for (const MeasuredCall& call : calls) sum += std::abs(cost_of(cluster, call.call).seconds / call.seconds - 1);
  return calls.empty() ? 0 : sum / static_cast<double>(calls.size());
}

Cluster fit_fabric(const Cluster& cluster, const std::vector<MeasuredCall>& calls) {
  Problem problem(cluster, calls);
  Cluster fitted = problem.at(minimise(problem));
  if (fitted.fabric.process <= 0) fitted.fabric.process = cluster.fabric.process;
  return fitted;
}

Fit calibrate(const Cluster& cluster, const std::vector<MeasuredCall>& calls) {
  if (calls.empty()) {
    throw Error("there is no call between devices to fit to", "the table needs calls of at least two devices");
  }
  Fit fit{.cluster = fit_fabric(cluster, calls), .before = mean_error(cluster, calls)};
  fit.after = mean_error(fit.cluster, calls);
  Fabric was = cluster.fabric, now = fit.cluster.fabric;
  if (now.process > 0 && now.process != was.process) fit.fitted.emplace_back("fabric.process");
  was.process = now.process = 0;
  const std::vector<Scalar> before = scalars(was), after = scalars(now);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const bool moved = std::abs(*after[i].value / *before[i].value - 1) > 1e-4;
    (moved ? fit.fitted : fit.kept).push_back(after[i].key);
  }
  std::set<std::int64_t> counts;
  for (const MeasuredCall& call : calls) counts.insert(call.call.devices);
  for (const std::int64_t count : counts) {
    if (counts.size() == 1) break;
    std::vector<MeasuredCall> others, left;
    for (const MeasuredCall& call : calls) (call.call.devices == count ? left : others).push_back(call);
    fit.left_out += mean_error(fit_fabric(cluster, others), left) / static_cast<double>(counts.size());
  }
  Origin& origin = fit.cluster.fabric.origin;
  origin.basis = "measured";
  origin.source = "simulate calibrate";
  origin.error = counts.size() > 1 ? fit.left_out : fit.after;
  const auto by_bytes = [](const MeasuredCall& a, const MeasuredCall& b) { return a.call.bytes < b.call.bytes; };
  const auto [least, most] = std::minmax_element(calls.begin(), calls.end(), by_bytes);
  origin.bytes = {least->call.bytes, most->call.bytes};
  origin.devices = {static_cast<double>(*counts.begin()), static_cast<double>(*counts.rbegin())};
  return fit;
}

std::string with_fabric(const std::string& text, const Cluster& cluster) {
  const Fabric& f = cluster.fabric;
  std::vector<std::pair<std::string, std::string>> values = {
      {"process", number(f.process)},
      {"base", list(f.base)},
      {"intra_latency", list(f.intra_latency)},
      {"intra_bandwidth", list(f.intra_bandwidth)},
      {"inter_latency", number(f.inter_latency)},
      {"inter_bandwidth", number(f.inter_bandwidth)},
      {"inter_bandwidth_ll", number(f.inter_bandwidth_ll)},
      {"reduce_bandwidth", number(f.reduce_bandwidth)},
      {"nvls_bandwidth", number(f.nvls_bandwidth)},
      {"pairs", number(f.pairs)},
      {"send", number(f.send)},
      {"send_intra", number(f.send_intra)},
      {"basis", '"' + f.origin.basis + '"'},
      {"source", '"' + f.origin.source + '"'},
      {"error", fmt::format("{:.3f}", f.origin.error)},
      {"fitted_bytes", fmt::format("[{}, {}]", f.origin.bytes[0], f.origin.bytes[1])},
      {"fitted_devices", fmt::format("[{}, {}]", f.origin.devices[0], f.origin.devices[1])},
  };
  std::string out;
  const auto add_missing = [&] {
    for (const auto& [key, value] : values) out += fmt::format("{} = {}\n", key, value);
    values.clear();
  };
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      if (inside) add_missing();
      inside = line.starts_with("[fabric]");
    }
    const std::string key = line.substr(0, line.find_first_of(" ="));
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == key; });
    if (inside && found != values.end()) {
      const std::size_t comment = line.find('#');
      line =
          fmt::format("{} = {}{}", key, found->second, comment == std::string::npos ? "" : "  " + line.substr(comment));
      values.erase(found);
    }
    out += line + "\n";
  }
  if (inside) add_missing();
  return out;
}

}  // namespace reel::cost
