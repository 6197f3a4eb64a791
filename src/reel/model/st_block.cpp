#include "reel/model/st_block.h"

#include "reel/base/sized.h"
#include "reel/parallel/shard.h"

namespace reel::model {

SpaceTime::SpaceTime(Context& context, std::int64_t frames, std::int64_t places)
    : context_(&context), many_(context.team != nullptr && context.team->sequence().size() > 1) {
  const int ranks = many_ ? context.team->sequence().size() : 1;
  frames_ = layout::even_cut(frames, ranks);
  places_ = layout::even_cut(places, ranks);
}

Tensor SpaceTime::split(const Tensor& x) const {
  return many_ ? parallel::split(context_->tape, context_->team->sequence(), x, 2, places_) : x;
}

Tensor SpaceTime::gather(const Tensor& x) const {
  return many_ ? parallel::gather(context_->tape, context_->team->sequence(), x, 2, places_) : x;
}

std::shared_ptr<const Buffer<float>> SpaceTime::own_places(std::shared_ptr<const Buffer<float>> table) const {
  if (!many_) return table;
  const std::int64_t width = static_cast<std::int64_t>(table->size()) / places_.extent();
  auto own = std::make_shared<Buffer<float>>(sized(places_.size(rank()) * width));
  std::copy_n(table->data() + places_.begin(rank()) * width, own->size(), own->data());
  return own;
}

// The sequences [first, first + cut.extent()) of the `extent` of each batch item, cut over the ranks.
SequencesHere SpaceTime::sequences(std::int64_t batch, std::int64_t extent, std::int64_t first,
                                   const layout::Cut& cut) const {
  SequencesHere here{.batch = batch * extent};
  for (int r = 0; r < cut.parts(); ++r) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = cut.begin(r); i < cut.end(r); ++i) {
        here.items.push_back(static_cast<std::int32_t>(b * extent + first + i));
      }
    }
    here.cut.starts.push_back(batch * cut.end(r));
  }
  return here;
}

// Every rank's frames in two halves, so that the messages of one are under way while f works on the other. More pieces
// would hide more, but f's matrices get lower, and each packs its weights again.
Tensor SpaceTime::along_switched(const Tensor& x, const OfSequences& f) const {
  Tape& tape = context_->tape;
  comm::Comm& group = context_->team->sequence();
  const int pieces = frames_.extent() >= 2 * group.size() ? 2 : 1;
  std::vector<layout::Cut> cuts;  // of the frames of a piece, which follow those of the piece before
  std::vector<parallel::Switch> there, back;
  std::int64_t first = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    layout::Cut cut;
    for (int r = 0; r < group.size(); ++r) {
      const std::int64_t all = frames_.size(r);
      cut.starts.push_back(cut.starts.back() + all * (piece + 1) / pieces - all * piece / pieces);
    }
    const Tensor part = pieces == 1 ? x : tape::slice(tape, x, 1, first, cut.extent());
    there.emplace_back(tape, group, part, 2, places_, 1, cut);
    first += cut.extent();
    cuts.push_back(std::move(cut));
  }
  first = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    const Tensor frames = there[i].finish(tape);
    const Here here = sequences(x.dim(0), frames_.extent(), first, cuts[i]);
    const Tensor y = f(frames.reshaped({frames.dim(0) * frames.dim(1), frames.dim(2), frames.dim(3)}), here);
    back.emplace_back(tape, group, y.reshaped(frames.shape()), 1, cuts[i], 2, places_);
    first += cuts[i].extent();
  }
  std::vector<Tensor> done;
  done.reserve(back.size());
  for (parallel::Switch& each : back) done.push_back(each.finish(tape));
  return tape::concatenate(tape, done, 1);
}

Tensor SpaceTime::along(Axis axis, const Tensor& x, const OfSequences& f) const {
  Tape& tape = context_->tape;
  const std::int64_t batch = x.dim(0);
  if (axis == Axis::kTime) {
    const Tensor places = tape::permute(tape, x, {0, 2, 1, 3});
    Here here;
    if (many_) here = sequences(batch, places_.extent(), 0, places_);
    const Tensor y = f(places.reshaped({batch * x.dim(2), x.dim(1), x.dim(3)}), here);
    return tape::permute(tape, y.reshaped(places.shape()), {0, 2, 1, 3});
  }
  if (many_ && context_->team->plan().dsp > 1) return along_switched(x, f);
  Here here;
  if (many_) here = TokensHere{places_};
  return f(x.reshaped({batch * x.dim(1), x.dim(2), x.dim(3)}), here).reshaped(x.shape());
}

}  // namespace reel::model
