// The Errors of this room, in the same words for files and folders. For its sources only.
#pragma once

#include <string>

namespace reel {

// "PATH: cannot be DONE: REASON", with a hint; `reason` is an errno. `done` is "read", "mapped", "written" or
// "removed".
[[noreturn]] void fail_file(const char* done, const std::string& path, int reason);

void sync_file(int number, const std::string& path);  // `number` is open; an Error where the disk does not take it
// New names and renames inside a folder are on the disk only when the folder is.
void sync_folder(const std::string& path);

}  // namespace reel
