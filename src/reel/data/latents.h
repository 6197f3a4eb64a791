// Clips that somebody's encoders made before: latents and text embeddings in safetensors files.
//
// data.path is a folder; every *.safetensors in it, sorted by name, is a shard of n clips or holds one clip:
//   latents       [n, channels, frames, height, width]   or [channels, frames, height, width]; F32, F16 or BF16
//   text          [n, tokens, width]                     or [tokens, width]; needed where the model takes text
//   text_lengths  [n]                                    or a scalar; rows of text from there on are padding
//   labels        [n]                                    or a scalar; -1: none
// The last two may be missing. Shapes are checked when the source is made: an Error names file and tensor. Fewer tokens
// than the model takes are filled with zero rows. A file that is damaged (cut off, say), or a clip that holds NaN or an
// infinity, is skipped with a warning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/data/source.h"
#include "reel/files/safetensors.h"

namespace reel::data {

class Latents final : public Source {
 public:
  Latents(const DataConfig& config, const Format& wanted, Warn warn);

  std::int64_t size(Split split) const override { return static_cast<std::int64_t>(held_.of(split).size()); }
  std::vector<std::string> labels() const override;  // "0", "1", ... up to the largest there is

  // There is no text encoder here: `caption` is the number of a training clip whose text to take, or the path of a
  // safetensors file with one `text` [tokens, width].
  Buffer<float> text_of(const std::string& caption) const override;

 private:
  struct Place {
    std::size_t shard = 0;
    std::int64_t row = 0;
    int label = -1;
    std::int64_t text_length = 0;
  };
  void add_shard(const std::string& path, const SafetensorsFile& file);
  void read_clip(Split split, std::int64_t index, Clip& out) override;

  std::vector<std::string> shards_;  // paths; opened anew for each clip: there may be more than can be mapped at once
  std::vector<Place> places_;        // of all clips
  int labels_ = 0;
  Held held_;
};

// Writes a shard that the above reads. Labels are written where a clip has one, text where the format has.
void write_latents(const std::string& path, const std::vector<Clip>& clips, const Format& format,
                   Dtype stored = Dtype::kF32);

}  // namespace reel::data
