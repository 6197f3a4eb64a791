// Which clips are held out for validation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reel::data {

enum class Split { kTraining, kValidation };

// Training clips of a source that draws them.
constexpr std::int64_t kEndless = std::int64_t{1} << 40;

// The number that such a source draws clip `index` from: held-out clips are numbered from kEndless on.
constexpr std::int64_t drawn_clip(Split split, std::int64_t index, std::int64_t validation) {
  return split == Split::kTraining ? index % kEndless : kEndless + index % validation;
}

struct Held {
  std::vector<std::int64_t> training, validation;  // places in `names`, ascending

  const std::vector<std::int64_t>& of(Split split) const { return split == Split::kTraining ? training : validation; }
};

// Holds out `validation` clips, chosen by a hash of their names: the choice looks random, depends on neither seed nor
// order, and stays mostly the same when clips are added. Clips of one name (cuts of one file) stay together, so a
// few more may be held out. An Error when nothing would be left to train on; `where` names the data set in it.
Held hold_out(const std::vector<std::string>& names, std::int64_t validation, const std::string& where);

}  // namespace reel::data
