// STDiT3 of Open-Sora 1.2: pairs of a block that attends over the places of each frame and one that attends over the
// frames at each place (with 1-D rotation), both with text cross-attention.
//
// Frames, rows and columns that do not fill a patch are padded with zeros, which take part like others; the output is
// cut back. Given frames (x_mask = 0 in the original) are modulated as if their timestep were 0.
#pragma once

#include <vector>

#include "reel/model/st_block.h"

namespace reel::model {

struct Family;

class Stdit3 : public Denoiser {
 public:
  explicit Stdit3(const ModelConfig& config);
  Tensor forward(Context& context, const Input& input) override;

 private:
  struct Block {
    Parameter* table;  // [6, width]
    Linear qkv, proj, cross_q, cross_kv, cross_proj;
    Parameter *norm_q, *norm_k;  // [head_dim], or null
    Mlp mlp;
  };
  struct Text {  // the tokens that count, of all items, one after another
    Tensor tokens;
    std::vector<std::int64_t> starts;
  };
  Block add_block(const std::string& name);
  Tensor block(Context& context, const SpaceTime& tokens, const Block& b, int layer, Axis axis, const Tensor& x,
               const Tensor& modulation, const Text& text,
               const std::shared_ptr<const kernels::RopeAngles>& rope) const;
  Tensor attention(Context& context, const Block& b, int layer, const Tensor& x, const Here& here,
                   const std::shared_ptr<const kernels::RopeAngles>& rope) const;
  Tensor cross_attention(Tape& tape, const Block& b, const Tensor& x, const Text& text) const;
  Text embed_text(Tape& tape, const Input& in) const;
  std::shared_ptr<const Buffer<float>> positions(const Input& in, std::int64_t rows, std::int64_t columns) const;
  Tensor final_layer(Tape& tape, const Tensor& x, const Tensor& time, const Input& in) const;
  std::shared_ptr<const kernels::RopeAngles> rope(std::int64_t frames) const;

  Linear patches_, time_projection_, final_linear_;
  Mlp time_, fps_, text_;
  std::vector<Block> spatial_, temporal_;
  Parameter *final_table_, *rope_freqs_;
};

const Family& stdit3_family();  // family.h

}  // namespace reel::model
