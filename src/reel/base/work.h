// Work: one piece of a step as data, whoever does it and however long it takes.
//
// The tape, the optimizer, the choice of keys and the ranks write down what they do (record.h). Arithmetic, bytes and a
// name to print follow from the kind of work and its sizes here and nowhere else, so that tables, memory, prices and
// traces speak of the same work. A reader asks for the kind (std::get_if) and for its sizes; nobody decides by a name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reel {

enum class Phase { kForward, kBackward, kOptimizer, kOther };

const char* phase_name(Phase phase);  // "forward", "backward", "optimizer", "other"

// What products may be computed in. kBf16 allows operands to be rounded to bf16 on their way into a product, where the
// CPU has tiles for it (AMX); sums are f32 in either case. Without such tiles kBf16 computes what kF32 computes.
enum class Precision { kF32, kBf16 };

// What the numbers in memory are.
enum class Element { kF32, kBf16 };
constexpr int size_of(Element element) { return element == Element::kF32 ? 4 : 2; }

namespace work {

// The three products of a linear layer y = x W^T: y = x W^T, dx = dy W, dW = dy^T x.
enum class Form { kXWt, kDyW, kDytX };

// A result of m rows and n columns, summed over k.
struct Product {
  Form form = Form::kXWt;
  std::int64_t m = 0, n = 0, k = 0;
};

struct Attention {
  enum class Kind { kSelf, kCross };
  enum class Direction { kForward, kBackward };  // recompute runs forward in the backward phase
  Kind kind = Kind::kSelf;
  Direction direction = Direction::kForward;
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0;
  std::int64_t pairs = 0;   // of a query and a key that are computed, all heads and batch items together
  std::int64_t groups = 0;  // of queries that share a list of keys, in each head; 0: no lists, all keys
};

// Scores that decide which keys attention looks at.
struct Selection {
  enum class Kind { kChoice, kProfile };  // the lists of a pass; a look at the true scores, from which predictors learn
  Kind kind = Kind::kChoice;
  std::int64_t rows = 0, keys = 0;  // each row (of all heads and batch items) is scored against each key
  std::int64_t width = 0;           // numbers that a score is a product of
};

// One pass over arrays of the same size: norms, activations, sums, copies, the optimizer.
struct Sweep {
  std::string_view name = {};  // a literal, for people
  std::int64_t elements = 0;
  int flops = 0;   // for each element
  int arrays = 0;  // that are read or written
};

// What this rank sends to others of its group, or receives from one.
struct Exchange {
  // In the order of their names.
  enum class Kind { kAllGather, kAllReduce, kAllToAll, kBarrier, kReceive, kReduceScatter, kSend };
  Kind kind = Kind::kSend;
  std::string group = {};                                     // its name: "world", "ulysses"
  std::shared_ptr<const std::vector<int>> members = nullptr;  // the group's ranks of the world; null: not known
  std::int64_t bytes = 0;                                     // sent by this rank
};
const char* kind_name(Exchange::Kind kind);  // "all_gather", "send", ...

// Time in which this rank had nothing to do but wait for the end of an exchange.
struct Wait {
  Exchange exchange;
};

using What = std::variant<Product, Attention, Selection, Sweep, Exchange, Wait>;

}  // namespace work

struct Work {
  work::What what;
  int layer = -1;  // -1: belongs to no layer
  Phase phase = Phase::kOther;
  Element element = Element::kF32;
  Precision precision = Precision::kF32;
};

double flops(const Work& work);  // a multiply-add counts two
// Compute: what is read and written in memory, each array once. Exchanges: what this rank sends.
double bytes(const Work& work);
// What a table calls it: all three products are "linear", self-attention is "attention".
std::string_view display_name(const Work& work);

bool is_product(const Work& work);
bool is_self_attention(const Work& work);
bool is_cross_attention(const Work& work);

}  // namespace reel
