#include "reel/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/file_error.h"

namespace reel {

namespace {

const char* hint_for(int reason, bool writing) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return writing ? "check the path; folders are not created on the way" : "check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions of the file and its folder";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space or write to another disk; what was there before is untouched";
    default:
      return "check the disk, and whether the system is short of something";
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Opens for reading and refuses folders, which open() would accept.
int open_to_read(const std::string& path, struct stat& status) {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0) fail_file("read", path, errno);
  if (::fstat(number, &status) != 0) {
    const int reason = errno;
    ::close(number);
    fail_file("read", path, reason);
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(number);
    throw Error(fmt::format("{}: cannot be read: it is a folder", path), "name a file inside it");
  }
  return number;
}

// The temporary file: removed unless it was moved to its place.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& target) {
    static std::atomic<unsigned> counter{0};
    for (;;) {
      const std::string name =
          fmt::format(".{}.{}-{}.tmp", target.filename().string().substr(0, 200), ::getpid(), counter.fetch_add(1));
      path_ = target.parent_path() / name;
      const int number = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (number >= 0) {
        stream_ = ::fdopen(number, "w");
        if (stream_ == nullptr) {
          const int reason = errno;
          ::close(number);
          ::unlink(path_.c_str());
          errno = reason;
        }
        break;
      }
      if (errno != EEXIST) break;  // another host on a shared disk may have the same process number
    }
    if (stream_ == nullptr) fail_file("written", target, errno);
  }
  ~Temporary() {
    if (stream_ != nullptr) std::fclose(stream_);
    if (!moved_) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  std::FILE* stream() { return stream_; }
  void finish(const std::filesystem::path& target, const std::string& shown) {
    struct stat old;
    if (::stat(target.c_str(), &old) == 0 && ::fchmod(::fileno(stream_), old.st_mode & 07777) != 0) {
      fail_file("written", shown, errno);
    }
    if (std::fflush(stream_) != 0) fail_file("written", shown, errno);
    sync_file(::fileno(stream_), shown);
    if (std::fclose(std::exchange(stream_, nullptr)) != 0) fail_file("written", shown, errno);
    if (::rename(path_.c_str(), target.c_str()) != 0) fail_file("written", shown, errno);
    moved_ = true;
    sync_folder(target.parent_path());
  }

 private:
  std::filesystem::path path_;
  std::FILE* stream_ = nullptr;
  bool moved_ = false;
};

}  // namespace

void fail_file(const char* done, const std::string& path, int reason) {
  throw Error(fmt::format("{}: cannot be {}: {}", path, done, std::generic_category().message(reason)),
              hint_for(reason, done == std::string_view("written")));
}

void sync_file(int number, const std::string& path) {
  // EINVAL: the file system has nothing to sync for this kind of file.
  if (::fsync(number) != 0 && errno != EINVAL) fail_file("written", path, errno);
}

void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() >= 0) sync_file(folder.number(), path);  // a folder may be writable and not readable
}

std::string read_file(const std::string& path) {
  struct stat status;
  const Descriptor file(open_to_read(path, status));
  std::string text(S_ISREG(status.st_mode) ? sized(status.st_size) + 1 : 4096, '\0');
  std::size_t size = 0;
  for (;;) {  // until the end is seen: the size of a pipe is not known, that of a growing file is out of date
    if (size == text.size()) text.resize(size * 2);
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_file("read", path, errno);
    if (got == 0) break;
    size += sized(got);
  }
  text.resize(size);
  return text;
}

void FileWriter::write(const void* data, std::size_t size) {
  if (size != 0 && std::fwrite(data, 1, size, stream_) != size) fail_file("written", path_, errno);
}

namespace {

namespace fs = std::filesystem;

// The number of this process's own output that `path` leads to, or -1. /dev/stdout may be any file, a log that others
// append to among them; opened anew it would be cut off, and replaced it would be lost.
int own_output(const std::string& path) {
  struct stat target, own;
  if (::stat(path.c_str(), &target) != 0) return -1;
  for (const int number : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::fstat(number, &own) == 0 && own.st_dev == target.st_dev && own.st_ino == target.st_ino) return number;
  }
  return -1;
}

// The file that links lead to, which need not exist yet, from the root on.
fs::path behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system allows
  std::error_code failed;
  fs::path target = fs::absolute(path, failed);
  for (int i = 0; !failed && fs::is_symlink(fs::symlink_status(target, failed)); ++i) {
    if (i == kMostLinks) fail_file("written", path, ELOOP);
    target = target.parent_path() / fs::read_symlink(target, failed);
  }
  failed.clear();  // a name that does not exist is no failure here
  target = fs::weakly_canonical(target, failed);
  if (failed) fail_file("written", path, failed.value());
  return target;
}

}  // namespace

void write_file_atomically(const std::string& path, const std::function<void(FileWriter&)>& fill) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (path.empty()) throw Error("a file without a name cannot be written", "give a path");
  if (fs::is_directory(status))
    throw Error(fmt::format("{}: cannot be written: it is a folder", path), "name a file inside it");
  if (const int own = own_output(path); own >= 0 || (fs::exists(status) && !fs::is_regular_file(status))) {
    std::fflush(nullptr);  // what was printed before comes first
    std::FILE* stream = own >= 0 ? ::fdopen(::dup(own), "w") : std::fopen(path.c_str(), "we");
    if (stream == nullptr) fail_file("written", path, errno);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closer(stream, std::fclose);
    FileWriter writer(stream, path);
    fill(writer);
    if (std::fflush(stream) != 0) fail_file("written", path, errno);
    return;
  }
  const fs::path target = behind_links(path);
  Temporary temporary(target);
  FileWriter writer(temporary.stream(), path);
  fill(writer);
  temporary.finish(target, path);
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, [&](FileWriter& writer) { writer.write(text); });
}

AppendFile::AppendFile(const std::string& path)
    : path_(path), number_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) {
  if (number_ < 0) fail_file("written", path, errno);
}

std::optional<AppendFile> AppendFile::create(const std::string& path) {
  const int number = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (number < 0 && errno != EEXIST) fail_file("written", path, errno);
  return number < 0 ? std::nullopt : std::optional(AppendFile(path, number));
}

AppendFile::~AppendFile() {
  if (number_ >= 0) ::close(number_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), number_(std::exchange(other.number_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(number_, other.number_);
  return *this;
}

void AppendFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(number_, bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR) fail_file("written", path_, errno);
    if (done > 0) bytes.remove_prefix(sized(done));
  }
}

MappedFile::MappedFile(const std::string& path) {
  struct stat status;
  const Descriptor file(open_to_read(path, status));
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("{}: cannot be mapped: it is not a regular file", path), "copy it into one");
  const auto size = sized(status.st_size);
  if (size == 0) return;  // an empty mapping does not exist
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) fail_file("mapped", path, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace reel
