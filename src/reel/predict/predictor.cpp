#include "reel/predict/predictor.h"

#include "reel/base/error.h"

namespace reel::predict {

void Predictor::learn(const Seen& seen, bool profiled, Threads& threads) {
  REEL_CHECK(seen.first == 0);
  Lesson lesson{.layer = seen.layer, .tokens = seen.tokens, .profiled = profiled, .origin = seen.origin};
  lesson.q = seen.q, lesson.k = seen.k;
  if (seen.origin != nullptr) lesson.hidden = seen.origin->hidden;
  if (wants(seen.origin, seen.layer, seen.tokens, profiled).sums) {
    lesson.sums = sums({0, shape_.heads, seen.q, seen.k}, seen.tokens, threads);
  }
  learn_from(lesson, threads);
}

}  // namespace reel::predict
