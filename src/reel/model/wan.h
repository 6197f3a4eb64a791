// Wan 2.1 text-to-video: full 3-D attention, text cross-attention, one timestep modulation shared by all blocks. Also
// the shape of DSV's own models.
//
//   x = patches W;  m = time projection [6 vectors];  per block, with m_i = table_i + m:
//     x += m_2 * self_attention(norm(x) (1 + m_1) + m_0)      q, k: RMS norm over the whole width, then 3-D rotation
//     x += cross_attention(norm(x), text)
//     x += m_5 * ffn(norm(x) (1 + m_4) + m_3)
//   out = linear(norm(x) (1 + scale) + shift), unpatchified
//
// Tensors are named as in diffusers (folder.h maps Wan's own names). Given frames get the modulation of time 0.
#pragma once

#include <vector>

#include "reel/model/modules.h"

namespace reel::model {

struct Family;

class Wan : public Denoiser {
 public:
  explicit Wan(const ModelConfig& config);
  Tensor forward(Context& context, const Input& input) override;

 private:
  struct Positions {                                      // of the tokens
    std::shared_ptr<const kernels::RopeAngles> own, all;  // of this rank, of all ranks
    Here here;
  };
  struct Attention {
    Linear q, k, v, out;
    Parameter *norm_q, *norm_k;
  };
  struct Block {
    Parameter* table;  // [1, 6, width]
    Attention self, cross;
    tape::Affine norm;  // before cross-attention
    Mlp ffn;
  };
  Attention add_attention(const std::string& name);
  Tensor self_attention(Context& context, int layer, const Attention& a, const Tensor& x, const Positions& at) const;
  Tensor cross_attention(Tape& tape, const Attention& a, const Tensor& x, const Tensor& text) const;

  Linear patch_embedding_, time_projection_, out_;
  Mlp time_, text_;
  std::vector<Block> blocks_;
  Parameter* table_;  // [1, 2, width]
};

const Family& wan_family();  // family.h

}  // namespace reel::model
