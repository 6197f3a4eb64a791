// Files that come with reel: clusters, run files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reel {

// Where the folder `name` ("clusters", "configs") may be, nearest first: here, installed, or in the source tree that
// the program was built in.
std::vector<std::filesystem::path> shipped_folders(const std::string& name);

// The first of these that holds `file`; here where none does, so that an error names a path that a user can make.
std::string shipped_file(const std::string& name, const std::string& file);

}  // namespace reel
