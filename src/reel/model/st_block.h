// What STDiT3 and Latte share: tokens [batch, frames, places, width], and attention over the places of each frame or
// over the frames at each place; on one rank or many.
//
// On many ranks the tokens are cut along places. Attention over frames then needs no message. For attention over places
// dynamic sequence parallelism (dsp) switches its input to whole frames and its output back: two all-to-alls for a pair
// of blocks. With ulysses and ring the places stay cut and attention itself sends.
#pragma once

#include <functional>

#include "reel/layout/cut.h"
#include "reel/model/modules.h"

namespace reel::model {

enum class Axis { kSpace, kTime };

class SpaceTime {
 public:
  SpaceTime(Context& context, std::int64_t frames, std::int64_t places);

  // x [batch, frames, places, width]: all places to those of this rank, and back.
  Tensor split(const Tensor& x) const;
  Tensor gather(const Tensor& x) const;
  // The rows of a position table [places, width] that belong to them.
  std::shared_ptr<const Buffer<float>> own_places(std::shared_ptr<const Buffer<float>> table) const;

  // f on whole sequences along the axis, [batch * frames, places, width] or [batch * places, frames, width], for x and
  // a result [batch, frames, places, width]. What f gets beside them is what attention over them is told. Where the
  // ranks switch, f is called for one half of the frames while the messages of the other are under way.
  using OfSequences = std::function<Tensor(const Tensor& sequences, const Here& here)>;
  Tensor along(Axis axis, const Tensor& x, const OfSequences& f) const;

 private:
  Tensor along_switched(const Tensor& x, const OfSequences& f) const;
  SequencesHere sequences(std::int64_t batch, std::int64_t extent, std::int64_t first, const layout::Cut& cut) const;
  int rank() const { return context_->team->sequence().rank(); }

  Context* context_;
  bool many_;
  layout::Cut frames_, places_;
};

}  // namespace reel::model
