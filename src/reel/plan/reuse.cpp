#include "reel/plan/reuse.h"

namespace reel::plan {

Reuse::Reuse(const Options& options, double limit, std::int64_t head_dim, double element_bytes)
    : options_(options), limit_(limit), head_dim_(head_dim), element_bytes_(element_bytes) {
  if (!(limit > 1)) throw Error(fmt::format("a limit of {}", limit), "perfect balance is 1: use 1.05 or so");
  // A tenth of the way from perfect to the limit: 1.005 for 1.05. Nearer to 1 moves more, further away lasts less long.
  // Where only heads are dealt nothing moves that would not move anyway, so they are dealt as well as can be.
  options_.target = options.ring == 1 ? 1 : 1 + (limit - 1) / 10;
}

Reuse::Step Reuse::next(const Counts& work) {
  const auto measure = [&](const Partition& p) {
    const Tiles t = tiles(work, p);
    return options_.exchange == Exchange::kRing ? rho(t) : rho_no_barrier(t);
  };
  const bool first = !partition_.has_value();
  const Partition plain = contiguous(work, options_.ulysses, options_.ring);
  if (first) {
    partition_ = plain;
    heads_ = work.heads, rows_ = work.rows, columns_ = work.columns;
  } else if (work.heads != heads_ || work.rows != rows_ || work.columns != columns_) {
    throw Error(fmt::format("{} heads, {} query groups and {} runs of keys, but {}, {} and {} in the step before",
                            work.heads, work.rows, work.columns, heads_, rows_, columns_),
                "the steps must be those of one layer of one model");
  }
  Step step;
  step.rho_contiguous = measure(plain);
  step.rho_kept = step.rho = measure(*partition_);
  if (!first && step.rho_kept <= limit_) return step;
  Options options = options_;
  options.present = &*partition_;
  Partition planned = make_partition(work, options);
  const double rho_planned = measure(planned);
  if (rho_planned >= step.rho_kept) return step;  // nothing better exists or was found: moving would be in vain
  step.planned = true;
  step.rho = rho_planned;
  step.moved = moved(*partition_, planned, work, head_dim_, element_bytes_);
  partition_ = std::move(planned);
  return step;
}

}  // namespace reel::plan
