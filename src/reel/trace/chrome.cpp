#include "reel/trace/chrome.h"

#include <fmt/format.h>

#include "reel/base/error.h"

namespace reel::trace {

namespace {

// Exact: a picosecond is the sixth decimal of a microsecond.
std::string microseconds(std::int64_t picoseconds) {
  REEL_CHECK(picoseconds >= 0);
  return fmt::format("{}.{:06}", picoseconds / 1000000, picoseconds % 1000000);
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  return result + '"';
}

ChromeWriter::ChromeWriter(FileWriter& file) : file_(file) {
  file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void ChromeWriter::event(std::string_view text) {
  file_.write(first_ ? "\n" : ",\n");
  file_.write(text);
  first_ = false;
}

void ChromeWriter::name_process(std::int64_t process, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, quote(name)));
  event(
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", process, process));
}

void ChromeWriter::name_thread(std::int64_t process, std::int64_t thread, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process, thread,
                    quote(name)));
  event(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
                    thread, thread));
}

void ChromeWriter::slice(const Slice& s) {
  event(fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                    quote(s.name), quote(s.category), s.process, s.thread, microseconds(s.start),
                    microseconds(s.duration), s.arguments));
}

void ChromeWriter::arrow(std::int64_t id, std::int64_t from_process, std::int64_t from_thread, std::int64_t from,
                         std::int64_t to_process, std::int64_t to_thread, std::int64_t to) {
  event(fmt::format(R"({{"ph":"s","name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{}}})", id,
                    from_process, from_thread, microseconds(from)));
  event(fmt::format(R"({{"ph":"f","bp":"e","name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{}}})", id,
                    to_process, to_thread, microseconds(to)));
}

void ChromeWriter::counter(std::int64_t process, std::string_view name, std::int64_t time, double value) {
  event(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}}}})", quote(name), process,
                    microseconds(time), value));
}

void ChromeWriter::finish() { file_.write("\n]}\n"); }

}  // namespace reel::trace
