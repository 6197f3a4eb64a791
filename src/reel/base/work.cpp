#include "reel/base/work.h"

namespace reel {

namespace {

double real(std::int64_t count) { return static_cast<double>(count); }

struct Flops {
  double operator()(const work::Product& p) const { return 2 * real(p.m) * real(p.n) * real(p.k); }
  // Forward: scores and output. Backward: scores once more, and the gradients of weights, queries, keys and values.
  double operator()(const work::Attention& a) const {
    const double products = a.direction == work::Attention::Direction::kForward ? 2 : 5;
    return 2 * products * real(a.pairs) * real(a.head_dim);
  }
  double operator()(const work::Selection& s) const { return 2 * real(s.rows) * real(s.keys) * real(s.width); }
  double operator()(const work::Sweep& s) const { return real(s.elements) * s.flops; }
  double operator()(const work::Exchange&) const { return 0; }
  double operator()(const work::Wait&) const { return 0; }
};

// Numbers that are read and written.
struct Numbers {
  double operator()(const work::Product& p) const {
    return real(p.m) * real(p.k) + real(p.n) * real(p.k) + real(p.m) * real(p.n);
  }
  // Forward: queries and output, keys and values. Backward: these, and the gradient of each.
  double operator()(const work::Attention& a) const {
    const double arrays = a.direction == work::Attention::Direction::kForward ? 2 : 4;
    return arrays * real(a.batch) * real(a.heads) * real(a.queries + a.keys) * real(a.head_dim);
  }
  // Rows and keys are read, scores are written and read once.
  double operator()(const work::Selection& s) const {
    return s.rows == 0 ? 0 : (real(s.rows) + real(s.keys)) * real(s.width) + 2 * real(s.rows) * real(s.keys);
  }
  double operator()(const work::Sweep& s) const { return real(s.elements) * s.arrays; }
  double operator()(const work::Exchange&) const { return 0; }
  double operator()(const work::Wait&) const { return 0; }
};

struct Name {
  std::string_view operator()(const work::Product&) const { return "linear"; }
  std::string_view operator()(const work::Attention& a) const {
    return a.kind == work::Attention::Kind::kSelf ? "attention" : "cross-attention";
  }
  std::string_view operator()(const work::Selection& s) const {
    return s.kind == work::Selection::Kind::kChoice ? "choose keys" : "profile and predictor";
  }
  std::string_view operator()(const work::Sweep& s) const { return s.name; }
  std::string_view operator()(const work::Exchange& e) const { return work::kind_name(e.kind); }
  std::string_view operator()(const work::Wait&) const { return "wait"; }
};

bool is_attention(const Work& work, work::Attention::Kind kind) {
  const auto* attention = std::get_if<work::Attention>(&work.what);
  return attention != nullptr && attention->kind == kind;
}

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kOther:
      break;
  }
  return "other";
}

const char* work::kind_name(Exchange::Kind kind) {
  constexpr const char* kNames[] = {"all_gather", "all_reduce",     "all_to_all", "barrier",
                                    "receive",    "reduce_scatter", "send"};
  return kNames[static_cast<int>(kind)];
}

double flops(const Work& work) { return std::visit(Flops(), work.what); }

double bytes(const Work& work) {
  if (const auto* exchange = std::get_if<work::Exchange>(&work.what)) return real(exchange->bytes);
  return std::visit(Numbers(), work.what) * size_of(work.element);
}

std::string_view display_name(const Work& work) { return std::visit(Name(), work.what); }

bool is_product(const Work& work) { return std::holds_alternative<work::Product>(work.what); }
bool is_self_attention(const Work& work) { return is_attention(work, work::Attention::Kind::kSelf); }
bool is_cross_attention(const Work& work) { return is_attention(work, work::Attention::Kind::kCross); }

}  // namespace reel
