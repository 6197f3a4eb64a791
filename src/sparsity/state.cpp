// The static control, and what checkpoints keep of a controller.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/softmax.h"
#include "sparsity/controller.h"
#include "sparsity/lists.h"

namespace reel::sparsity {

using attention::KeyLists;
using tape::Tensor;

namespace {

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

constexpr double kStaticDecay = 0.8;

}  // namespace

// Mode static: the weights of all keys for every group, averaged over clips. Memory grows with the square of the
// tokens: a control for small clips.
void Controller::average_weights(int layer, const Tensor& q, const Tensor& k, Threads& threads) {
  const std::int64_t tokens = q.dim(1), dim = shape_.head_dim, width = shape_.heads * dim, groups = order_->groups();
  if (tokens > 16384)
    throw Error("sparsity.mode = static is a control for clips of up to 16,384 tokens", "use dynamic");
  Layer& l = layers_[sized(layer)];
  const bool first = l.averages.size() == 0;
  if (first) l.averages = Buffer<float>::zeros(sized(shape_.heads * groups * tokens));
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = order_->group_starts[sized(g)], queries = order_->group_starts[sized(g) + 1] - begin;
      Buffer<float> p(sized(queries * tokens)), weights(sized(tokens));
      kernels::gemm({.form = kernels::Form::kXWt,
                     .rows = sized(queries),
                     .columns = sized(tokens),
                     .depth = sized(dim),
                     .a = {q.data() + begin * width + h * dim, sized(width)},
                     .b = {k.data() + h * dim, sized(width)},
                     .c = p.data(),
                     .c_stride = sized(tokens)},
                    threads);
      kernels::scale(1.0f / std::sqrt(static_cast<float>(dim)), p, p, threads);
      const kernels::Rows rows(p.data(), sized(queries), sized(tokens));
      kernels::softmax(rows, rows, nullptr, threads);
      kernels::column_sums(rows, weights.data(), kernels::Write::kOverwrite, threads);
      float* average = l.averages.data() + (h * groups + g) * tokens;
      const float decay = first ? 0.0f : static_cast<float>(kStaticDecay);
      for (std::int64_t j = 0; j < tokens; ++j) average[j] = decay * average[j] + (1 - decay) * weights[sized(j)];
    }
  }
}

KeyLists Controller::static_lists(int layer, std::int64_t batch) {
  const Layer& l = layers_[sized(layer)];
  const std::int64_t tokens = order_->tokens(), groups = order_->groups();
  const double share = config_.keys > 0 ? config_.keys : 0.1;
  const std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(share * static_cast<double>(tokens))), 1, tokens);
  attention::KeyListsBuilder builder(batch, shape_.heads, tokens, order_->group_starts);
  std::vector<std::int32_t> keys(sized(tokens));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < shape_.heads * groups; ++i) {
      const float* average = l.averages.data() + i * tokens;
      std::iota(keys.begin(), keys.end(), 0);
      std::nth_element(keys.begin(), keys.begin() + (count - 1), keys.end(), [&](std::int32_t a, std::int32_t c) {
        return average[a] != average[c] ? average[a] > average[c] : a < c;
      });
      std::vector<std::int32_t> list(keys.begin(), keys.begin() + count);
      std::sort(list.begin(), list.end());
      builder.add(list);
    }
  }
  return with_own_tile(builder.finish());
}

void Controller::save(const std::string& path) const {
  const std::int64_t dim = shape_.head_dim;
  SafetensorsWriter writer;
  writer.add("heads", {shape_.layers, shape_.heads, static_cast<std::int64_t>(sizeof(Head) / sizeof(float))},
             std::span<const float>(reinterpret_cast<const float*>(heads_.data()),
                                    heads_.size() * sizeof(Head) / sizeof(float)));
  std::vector<float> moments;
  for (const Layer& layer : layers_) {
    for (std::size_t h = 0; h < sized(shape_.heads); ++h) {
      for (const Moments* each : {&layer.q[h], &layer.k[h]}) {
        const std::size_t begin = moments.size();
        for (const double value : each->product) moments.push_back(static_cast<float>(value));
        for (const double value : each->mean) moments.push_back(static_cast<float>(value));
        moments.resize(begin + sized(dim * dim + dim), 0.0f);
      }
    }
  }
  writer.add("moments", {shape_.layers, shape_.heads, 2, dim * dim + dim}, moments);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Buffer<float>& averages = layers_[i].averages;
    if (averages.size() > 0)
      writer.add("averages." + std::to_string(i), {static_cast<std::int64_t>(averages.size())}, averages);
  }
  writer.write(path);
}

void Controller::load(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::int64_t dim = shape_.head_dim;
  const std::vector<std::int64_t> heads = {shape_.layers, shape_.heads,
                                           static_cast<std::int64_t>(sizeof(Head) / sizeof(float))};
  const std::vector<std::int64_t> wanted = {shape_.layers, shape_.heads, 2, dim * dim + dim};
  if (file.info("heads").shape != heads || file.info("moments").shape != wanted) {
    throw Error(file.name() + ": is of another model", "the run file must describe the model of the checkpoint");
  }
  file.read_f32("heads", {reinterpret_cast<float*>(heads_.data()), heads_.size() * sizeof(Head) / sizeof(float)});
  const Buffer<float> moments = file.read_f32("moments");
  const float* at = moments.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const bool known = head(static_cast<int>(i), h).profiles > 0;
      for (Moments* each : {&layer.q[sized(h)], &layer.k[sized(h)]}) {
        *each = Moments();
        each->dim = dim;
        if (known) {
          each->product.assign(at, at + dim * dim);
          each->mean.assign(at + dim * dim, at + dim * dim + dim);
        }
        at += dim * dim + dim;
      }
      if (known) refresh(static_cast<int>(i), h);
    }
    const std::string name = "averages." + std::to_string(i);
    if (file.contains(name)) layer.averages = file.read_f32(name);
  }
}

}  // namespace reel::sparsity
