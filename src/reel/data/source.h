// Where clips come from.
//
//   moving-shapes   drawn in this process, endless (moving_shapes.h)
//   storyboard      pictures, and one of them again at another place; drawn here, endless (storyboard.h)
//   folder          video files under a folder, or listed in a CSV file (folder.h)
//   latents         latents and text embeddings that somebody's encoders made (latents.h)
//
// What read gives depends on split, index and configuration alone, so a run can be resumed anywhere. read and skipped
// may be called from several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reel/base/error.h"
#include "reel/data/clip.h"
#include "reel/data/split.h"
#include "reel/data/storyboard_picture.h"
#include "reel/files/settings.h"

namespace reel::data {

struct DataConfig {
  std::string source = "moving-shapes";
  std::string path;
  double fps = 0;
  std::int64_t stride = 1;
  std::int64_t validation = 16;
  std::int64_t seed = 0;

  PictureStyle picture;  // this and the next: storyboard
  std::string motion = "camera";
};

void visit(Settings& settings, DataConfig& config);

// Gets one line, without its end, about a clip that is left out; called by whichever thread reads. It may be empty.
using Warn = std::function<void(const std::string&)>;

class Source {
 public:
  virtual ~Source() = default;

  const Format& format() const { return format_; }
  // Clips of this part. Sources that draw them have kEndless.
  virtual std::int64_t size(Split split) const = 0;

  // Clip index % size(split). index / size(split) counts epochs: a video file is cut at another place in each.
  // False: this one is broken. Warn gets a line the first time a clip is found broken.
  bool read(Split split, std::int64_t index, Clip& out);
  std::int64_t skipped() const;  // clips, or files of clips, found broken so far

  // Names of the labels 0, 1, ...; empty where clips have none.
  virtual std::vector<std::string> labels() const { return {}; }
  int label_of(const std::string& name) const;  // an Error names the nearest label there is

  // The text embedding for sampling, [text_tokens][text_width]: of a caption where words are embedded here.
  virtual Buffer<float> text_of(const std::string& caption) const;

 protected:
  Source(const Format& wanted, bool pixels, Warn warn) : format_(wanted), warn_(std::move(warn)) {
    format_.pixels = pixels;
  }

  // Fills every field of `out`, whose buffers have their sizes. An Error: the clip is broken, and why.
  virtual void read_clip(Split split, std::int64_t index, Clip& out) = 0;
  void embed(const std::string& caption, Clip& out) const;  // sets caption and text
  void skip_file(const Error& why);                         // counts the file and calls Warn

 private:
  Format format_;
  Warn warn_;
  mutable std::mutex mutex_;
  std::set<std::pair<Split, std::int64_t>> broken_;
  std::int64_t broken_files_ = 0;
};

// `wanted` is what the model takes; `pixels` in it does not matter, the source knows. An Error when the source cannot
// give it.
std::unique_ptr<Source> make_source(const DataConfig& config, const Format& wanted, Warn warn = {});

}  // namespace reel::data
