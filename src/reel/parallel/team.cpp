#include "reel/parallel/team.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "reel/base/error.h"
#include "reel/comm/mpi.h"

namespace reel::parallel {

namespace {

constexpr int kMostRanks = 1 << 20;
constexpr const char* kHint = "use \"dsp=4\", \"ulysses=4\", \"ring=4\" or \"ulysses=2,ring=2\"; degrees are 1 or more";

}  // namespace

std::string Plan::text() const {
  std::string text;
  for (const auto& [name, degree] : {std::pair{"dsp", dsp}, {"ulysses", ulysses}, {"ring", ring}}) {
    if (degree > 1) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, degree);
  }
  return text;
}

Plan parse_plan(const std::string& text) {
  Plan plan;
  bool seen[3] = {};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const int which = name == "dsp" ? 0 : name == "ulysses" ? 1 : name == "ring" ? 2 : -1;
    int degree = 0;
    if (which >= 0 && equals != std::string::npos) {
      const char *first = part.data() + equals + 1, *last = part.data() + part.size();
      if (const auto [stop, error] = std::from_chars(first, last, degree); error != std::errc() || stop != last)
        degree = 0;
    }
    if (which < 0 || degree < 1 || degree > kMostRanks / plan.degree() || seen[which] || end + 1 == text.size()) {
      throw Error(fmt::format("the plan \"{}\" is not understood at \"{}\"", text, part), kHint);
    }
    seen[which] = true;
    (which == 0 ? plan.dsp : which == 1 ? plan.ulysses : plan.ring) = degree;
    at = end + 1;
  }
  if (plan.dsp > 1 && plan.ulysses * plan.ring > 1) {
    throw Error(fmt::format("the plan \"{}\" mixes dsp with others", text), kHint);
  }
  return plan;
}

Team::Team(comm::Comm& world, const Plan& plan) : plan_(plan), world_(world) {
  const int ranks = world.size(), degree = plan.degree();
  if (ranks == 1 && degree > 1 && comm::mpi_version().empty()) {
    throw Error(fmt::format("the plan \"{}\" needs groups of {} ranks, and this build has no MPI", plan.text(), degree),
                "install libopenmpi-dev and build again, or leave out the plan");
  }
  if (ranks % degree != 0) {
    std::vector<int> fitting;  // the next ones
    for (const int n : {ranks / degree * degree, ranks / degree * degree + degree}) {
      if (n > 0) fitting.push_back(n);
    }
    std::vector<int> degrees;
    for (int n = 1; n <= ranks; ++n) {
      if (ranks % n == 0) degrees.push_back(n);
    }
    throw Error(fmt::format("the plan \"{}\" needs groups of {} ranks, and {} rank{} cannot be cut into them",
                            plan.text(), degree, ranks, ranks == 1 ? "" : "s"),
                fmt::format("start {} ranks (mpirun -n {}), or use a plan for {} ranks a clip",
                            fmt::join(fitting, " or "), fitting.front(), fmt::join(degrees, ", ")));
  }
  const int place = world.rank() % degree, u = place % plan.ulysses, whole = plan.ulysses * plan.ring;
  const auto ranks_from = [](int first, int step, int count) {
    std::vector<int> list;
    for (int i = 0; i < count; ++i) list.push_back(first + i * step);
    return list;
  };
  sequence_ = world.group(ranks_from(world.rank() - place, 1, degree), "sequence");
  data_ = world.group(ranks_from(place, degree, ranks / degree), "data");
  ulysses_ = sequence_->group(ranks_from(place - u, 1, plan.ulysses), "ulysses");
  ring_ = sequence_->group(ranks_from(place / whole * whole + u, plan.ulysses, plan.ring), "ring");
}

}  // namespace reel::parallel
