#!/bin/sh
# Builds the fuzz drivers (src/reel/*/*_fuzz.cpp) with clang and runs each for FUZZ_SECONDS.
#
# A driver starts from tests/fuzz/<driver> (replayed by `make test`) and collects what it finds in
# build/fuzz/corpus/<driver>. An input that breaks something is left as build/fuzz/<driver>-crash-...: fix the reader and
# add the input to tests/fuzz/<driver>.
set -eu
cd "$(dirname "$0")/.."

drivers=$(find src -name '*_fuzz.cpp' -exec basename {} .cpp \; | sort)
if [ -z "$drivers" ]; then
  echo "fuzz: there is no src/reel/*/*_fuzz.cpp"
  exit 1
fi
mkdir -p build/fuzz
cmake --preset fuzz -DREEL_NO_MPI=ON >build/fuzz/configure.log || { cat build/fuzz/configure.log; exit 1; }
# shellcheck disable=SC2086  # a list of words
cmake --build build/fuzz --target $drivers

for driver in $drivers; do
  found=build/fuzz/corpus/$driver
  mkdir -p "$found"
  echo "fuzz: $driver, ${FUZZ_SECONDS:=60} s"
  if ! "build/fuzz/$driver" -max_total_time="$FUZZ_SECONDS" -timeout=10 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$driver-" "$found" "tests/fuzz/$driver" >"build/fuzz/$driver.log" 2>&1; then
    tail -n 40 "build/fuzz/$driver.log"
    exit 1
  fi
  grep -E '^(Done|stat::number_of_executed_units)' "build/fuzz/$driver.log"
done
