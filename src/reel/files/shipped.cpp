#include "reel/files/shipped.h"

namespace reel {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_folders(const std::string& name) {
  std::vector<fs::path> all = {name};
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (none || !program.has_parent_path()) return all;
  const fs::path here = program.parent_path();
  all.push_back(here.parent_path() / "share/reel" / name);  // PREFIX/bin/reel
  all.push_back(here.parent_path() / name);                 // SOURCE/build/reel
  all.push_back(here.parent_path().parent_path() / name);   // SOURCE/build/asan/app_test
  return all;
}

std::string shipped_file(const std::string& name, const std::string& file) {
  std::error_code none;
  for (const fs::path& folder : shipped_folders(name)) {
    if (fs::exists(folder / file, none)) return folder / file;
  }
  return name + "/" + file;
}

}  // namespace reel
