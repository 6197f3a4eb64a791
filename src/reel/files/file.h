// Files: read, mapped, appended to, and written so that a reader never sees half of one. With folder.h, all that reel
// writes goes through here.
//
// Every failure is an Error, "PATH: cannot be written: REASON", with the reason that the system gives and a hint.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reel {

std::string read_file(const std::string& path);

// Given to the function that fills a file; throws Error when the disk does not take the bytes.
class FileWriter {
 public:
  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }

 private:
  friend void write_file_atomically(const std::string& path, const std::function<void(FileWriter&)>& fill);
  FileWriter(std::FILE* stream, const std::string& path) : stream_(stream), path_(path) {}
  std::FILE* stream_;
  const std::string& path_;
};

// Either the whole new file stands at `path` afterwards, on the disk and not only in the cache, or an Error is thrown
// and what stood there before is untouched: bytes go to a temporary file next to it, are synced, and the name is moved
// over. Links are followed and permissions kept. A path that is a pipe or a device, or leads to where this process
// prints (/dev/stdout), is written directly.
void write_file_atomically(const std::string& path, const std::function<void(FileWriter&)>& fill);
void write_file_atomically(const std::string& path, std::string_view text);

// A file that grows. What was written survives the end of the process, though not a power cut: write() hands all of it
// to the system.
class AppendFile {
 public:
  explicit AppendFile(const std::string& path);  // made where there is none; its folder has to exist
  static std::optional<AppendFile> create(const std::string& path);  // nothing where the file exists already
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  void write(std::string_view bytes);

 private:
  AppendFile(std::string path, int number) : path_(std::move(path)), number_(number) {}
  std::string path_;
  int number_;
};

// A file in memory, read only, loaded by the system page by page as it is touched. The file must not shrink meanwhile:
// touching what is gone kills the process (files written by write_file_atomically never shrink, they are replaced).
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace reel
