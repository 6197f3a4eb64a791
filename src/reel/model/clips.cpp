#include "reel/model/clips.h"

#include "reel/model/modules.h"
#include "reel/parallel/shard.h"

namespace reel::model {

namespace {

template <class Value>
std::vector<Value> values_of_clips(const std::vector<Value>& all, std::int64_t batch, std::int64_t first,
                                   std::int64_t last) {
  const std::int64_t each = static_cast<std::int64_t>(all.size()) / batch;
  return {all.begin() + first * each, all.begin() + last * each};
}

}  // namespace

Tensor forward_clips(Denoiser& model, Context& context, const Input& input) {
  if (context.team == nullptr || context.team->data().size() == 1) return model.forward(context, input);
  check_input(model.config(), input);
  comm::Comm& groups = context.team->data();
  const std::int64_t batch = input.latents.dim(0);
  const layout::Cut cut = layout::cut_of_clips("the batch", batch, groups.size());
  const std::int64_t first = cut.begin(groups.rank()), last = cut.end(groups.rank());
  Input own = input;
  own.latents = parallel::split(context.tape, groups, input.latents, 0, cut);
  own.text = parallel::split(context.tape, groups, input.text, 0, cut);
  own.times = values_of_clips(input.times, batch, first, last);
  own.given_frames = values_of_clips(input.given_frames, batch, first, last);
  own.text_mask = values_of_clips(input.text_mask, batch, first, last);
  own.fps = values_of_clips(input.fps, batch, first, last);
  // The size of the first clip of the batch counts for every clip (stdit3.cpp).
  own.height = values_of_clips(input.height, batch, 0, last - first);
  own.width = values_of_clips(input.width, batch, 0, last - first);
  const GivenLists lists = context.lists;
  if (lists.here && lists.here.batch() % batch == 0) {     // else attend says what is wrong
    const std::int64_t each = lists.here.batch() / batch;  // stdit3, latte: frames or places of a clip
    context.lists.here = lists.here.some_items(first * each, last * each);
  }
  const Tensor sample = parallel::gather(context.tape, groups, model.forward(context, own), 0, cut);
  context.lists = lists;
  return sample;
}

}  // namespace reel::model
