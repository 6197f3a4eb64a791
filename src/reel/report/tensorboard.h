// Scalars for TensorBoard: event files written without TensorFlow or protobuf.
//
// A file is a sequence of TFRecords (length, masked CRC-32C of it, bytes, masked CRC-32C of them), each record an Event
// message; the field numbers are those of TensorFlow's event.proto and summary.proto. Values are stored as f32, as
// TensorBoard does. Each record is flushed, so a reader that looks in during a run sees all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reel/files/file.h"

namespace reel::report {

class EventFile {
 public:
  // A new file events.out.tfevents.<seconds>.<host>.<number> in `folder`, which has to exist, for a run that
  // continues after `resume_after_step` (-1: a new run). It begins with a session start at the step that follows, at
  // which TensorBoard drops what older files of the folder say about that step and later ones.
  explicit EventFile(const std::string& folder, std::int64_t resume_after_step = -1);

  // wall_time in seconds since 1970; NaN and infinities are allowed.
  void scalar(std::string_view tag, std::int64_t step, double value, double wall_time);

  const std::string& path() const { return path_; }

 private:
  void write_record(const std::string& event);

  std::string path_;
  std::optional<AppendFile> file_;
};

}  // namespace reel::report
