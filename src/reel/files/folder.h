// Folders that survive a kill at any moment: filled as a whole or not at all, pointed at by links that are moved at
// once, held by one process at a time. Single files: file.h.
//
// What a function here has done is on the disk when it returns. Every failure is an Error in the words of file.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace reel {

void make_folder(const std::string& path);    // and those above it; it may be there already
void remove_folder(const std::string& path);  // with everything in it; it may be gone already

// `fill` gets a folder next to `path` that is empty. Then either the whole new folder stands at `path`, in place of
// what was there, or an exception is thrown and `path` is untouched. (A file system that cannot exchange two folders
// has none at `path` for a moment.) What a killed process left of its attempt goes
// first, so only one process may write into the folder above at a time.
void write_folder_atomically(const std::string& path, const std::function<void(const std::string& folder)>& fill);

// Makes the symbolic link `link` lead to `target`, whatever it led to before.
void point_link(const std::string& link, const std::string& target);

// A file that one process at a time holds. The system lets go of it however the process ends.
class FileLock {
 public:
  static std::optional<FileLock> take(const std::string& path);  // nothing where another process holds it
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int number) : number_(number) {}
  int number_;
};

}  // namespace reel
