#include "app/app.h"

#ifdef REEL_WITH_MPI
#include <mpi.h>
#endif

namespace reel::app {

std::string mpi_version() {
#ifdef REEL_WITH_MPI
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "";
  const std::string version(text);
  return version.substr(0, version.find(','));
#else
  return "";
#endif
}

}  // namespace reel::app
