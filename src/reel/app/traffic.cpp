#include "reel/app/traffic.h"

#include "reel/files/file.h"

namespace reel::app {

void write_traffic(comm::Comm& world, const std::string& path) {
  if (path.empty()) return;
  const std::string text = comm::traffic_json(world);
  if (world.rank() == 0) write_file_atomically(path, text);
}

}  // namespace reel::app
