#include "reel/report/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>

#include "reel/base/error.h"
#include "reel/files/crc32c.h"

namespace reel::report {

namespace {

// Protocol buffers: a field is its number and wire type, then a varint (type 0), 8 bytes (1), length and bytes (2) or
// 4 bytes (5), little endian.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_field(std::string& out, int number, int wire_type) {
  put_varint(out, static_cast<std::uint64_t>(number << 3 | wire_type));
}

void put_integer(std::string& out, int number, std::int64_t value) {
  put_field(out, number, 0);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_double(std::string& out, int number, double value) {
  put_field(out, number, 1);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, int number, std::string_view bytes) {
  put_field(out, number, 2);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_float(std::string& out, int number, float value) {
  put_field(out, number, 5);
  put_fixed(out, std::bit_cast<std::uint32_t>(value));
}

std::string event(double wall_time, std::int64_t step) {
  std::string out;
  put_double(out, 1, wall_time);             // Event.wall_time
  if (step != 0) put_integer(out, 2, step);  // Event.step
  return out;
}

// The mask of TFRecord: a checksum that is itself stored among the checksummed data would be a weak one.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::int64_t resume_after_step) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  // TensorBoard reads the files of a folder in the order of their names: the number puts a run that was resumed within
  // the same second behind the one before.
  for (int number = 0; !file_; ++number) {
    path_ = fmt::format("{}/events.out.tfevents.{:010d}.{}.{:03d}", folder, static_cast<std::int64_t>(now), host_name(),
                        number);
    file_ = AppendFile::create(path_);
  }
  std::string version = event(now, 0);
  put_bytes(version, 3, "brain.Event:2");  // Event.file_version
  write_record(version);
  std::string status, start = event(now, resume_after_step + 1);
  put_integer(status, 1, 1);    // SessionLog.status = START
  put_bytes(start, 7, status);  // Event.session_log
  write_record(start);
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value, double wall_time) {
  std::string entry, summary, record = event(wall_time, step);
  put_bytes(entry, 1, tag);                        // Summary.Value.tag
  put_float(entry, 2, static_cast<float>(value));  // Summary.Value.simple_value
  put_bytes(summary, 1, entry);                    // Summary.value
  put_bytes(record, 5, summary);                   // Event.summary
  write_record(record);
}

void EventFile::write_record(const std::string& record) {
  std::string length, bytes;
  put_fixed(length, static_cast<std::uint64_t>(record.size()));
  bytes += length;
  put_fixed(bytes, masked_crc(length));
  bytes += record;
  put_fixed(bytes, masked_crc(record));
  file_->write(bytes);
}

}  // namespace reel::report
