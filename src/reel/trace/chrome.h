// Traces for chrome://tracing and ui.perfetto.dev: the JSON array format of Chrome's trace events.
//
// A process is a rank, a thread one of its streams. Times are picoseconds here and microseconds in the file, with all
// six decimals. Events are written as they come; the viewers sort them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reel/files/file.h"

namespace reel::trace {

struct Slice {
  std::int64_t process = 0, thread = 0;
  std::int64_t start = 0, duration = 0;  // picoseconds
  std::string_view name, category;
  std::string_view arguments = {};  // JSON object without its braces: "\"layer\":3"; may be empty
};

class ChromeWriter {
 public:
  explicit ChromeWriter(FileWriter& file);

  void name_process(std::int64_t process, std::string_view name);
  void name_thread(std::int64_t process, std::int64_t thread, std::string_view name);
  void slice(const Slice& slice);
  // An arrow from one slice's end to another's start; both are named by a time within them.
  void arrow(std::int64_t id, std::int64_t from_process, std::int64_t from_thread, std::int64_t from,
             std::int64_t to_process, std::int64_t to_thread, std::int64_t to);
  void counter(std::int64_t process, std::string_view name, std::int64_t time, double value);
  void finish();  // ends the array; nothing can follow

 private:
  void event(std::string_view text);

  FileWriter& file_;
  bool first_ = true;
};

// "a \"b\"" for a "b": text as a JSON string, with its quotes.
std::string quote(std::string_view text);

}  // namespace reel::trace
