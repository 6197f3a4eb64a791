#include "reel/files/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "reel/files/file_error.h"

namespace reel {

namespace {

std::string above(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

void rename_over(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_file("written", to, errno);
  sync_folder(above(to));
}

}  // namespace

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_file("written", path, error.value());
}

void remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail_file("removed", path, error.value());
}

namespace {

// Two folders take each other's place at once.
bool exchange(const std::string& a, const std::string& b) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) != 0) return false;
  sync_folder(above(b));
  return true;
#else
  return false;
#endif
}

}  // namespace

void write_folder_atomically(const std::string& path, const std::function<void(const std::string& folder)>& fill) {
  const std::string temporary = above(path) + "/.writing";
  remove_folder(temporary);
  make_folder(temporary);
  try {
    fill(temporary);
    sync_folder(temporary);
    if (!exchange(temporary, path)) {  // nothing stands there, or the disk cannot
      remove_folder(path);
      rename_over(temporary, path);
    }
    remove_folder(temporary);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
}

void point_link(const std::string& link, const std::string& target) {
  const std::string temporary = above(link) + "/." + std::filesystem::path(link).filename().string();
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) fail_file("written", link, errno);
  rename_over(temporary, link);
}

std::optional<FileLock> FileLock::take(const std::string& path) {
  FileLock lock(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (lock.number_ < 0) fail_file("written", path, errno);
  if (::flock(lock.number_, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) fail_file("written", path, errno);
  return std::nullopt;
}

FileLock::~FileLock() {
  if (number_ >= 0) ::close(number_);
}

FileLock::FileLock(FileLock&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace reel
