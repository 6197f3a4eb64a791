// Latte, as diffusers' LatteTransformer3DModel: pairs of a spatial block (attention over the places of each frame, then
// cross-attention to the text) and a temporal block (attention over the frames at each place). No norms of q and k, no
// rotation: positions are added, those of time before the first temporal block.
#pragma once

#include <vector>

#include "reel/model/st_block.h"

namespace reel::model {

struct Family;

class Latte : public Denoiser {
 public:
  explicit Latte(const ModelConfig& config);
  Tensor forward(Context& context, const Input& input) override;

 private:
  struct Attention {
    Linear q, k, v, out;
  };
  struct Block {
    Parameter* table;  // [6, width]
    Attention self;
    bool has_cross = false;
    Attention cross;
    Mlp ff;
  };
  Attention add_attention(const std::string& name);
  Block add_block(const std::string& name, bool cross);
  Tensor block(Context& context, const SpaceTime& tokens, const Block& b, int layer, Axis axis, const Tensor& x,
               const Tensor& modulation, const Tensor& text) const;

  Linear patches_, time_projection_, out_;
  Mlp time_, text_;
  std::vector<Block> spatial_, temporal_;
  Parameter* table_;  // [2, width]
};

const Family& latte_family();  // family.h

}  // namespace reel::model
