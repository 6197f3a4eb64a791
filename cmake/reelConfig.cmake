# find_package(reel): reel::reel is everything, reel::base, reel::attention, ... are its rooms. Includes are written as inside
# reel: #include "reel/attention/attention.h".
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(nlohmann_json)
find_dependency(tomlplusplus)
find_dependency(PNG)
find_dependency(PkgConfig)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(FFMPEG IMPORTED_TARGET libavformat libavcodec libavutil libswscale)
include("${CMAKE_CURRENT_LIST_DIR}/reelTargets.cmake")
