#!/bin/sh
# Installs what a make target needs and this machine lacks.
#
#   scripts/setup.sh build|test|lint|fuzz|peers ...
#
# With everything there it takes some milliseconds and touches nothing. On Debian and its kin it installs packages by
# name, as root or through sudo; where it may do neither it prints the line to run. MPI and FFmpeg are optional:
# REEL_NO_MPI=1 and REEL_NO_FFMPEG=1 leave them out, and a failure to install them stops nothing; so is clang for tests,
# whose sanitized part g++ compiles as well, in twice the time. REEL_NO_SETUP=1 skips all of this.
set -eu

[ -z "${REEL_NO_SETUP:-}" ] || exit 0

needed=""
tools=""
optional=""
for what in "$@"; do
  case $what in
    build)
      needed="$needed g++ cmake ninja-build pkgconf libhwy-dev libfmt-dev libcli11-dev libtomlplusplus-dev"
      needed="$needed nlohmann-json3-dev libpng-dev libgtest-dev python3"  # python3: the test that kills a rank
      tools="$tools c++ cmake ninja pkg-config"
      [ -n "${REEL_NO_MPI:-}" ] || optional="$optional libopenmpi-dev openmpi-bin"
      [ -n "${REEL_NO_FFMPEG:-}" ] || optional="$optional libavformat-dev libavcodec-dev libavutil-dev libswscale-dev"
      ;;
    test) optional="$optional clang libclang-rt-14-dev" ;;
    lint) needed="$needed clang-format clang-tidy shellcheck python3" tools="$tools clang-format clang-tidy shellcheck python3" ;;
    fuzz) needed="$needed clang libclang-rt-14-dev" tools="$tools clang++" ;;
    # torch.compile writes C++ against Python.h
    peers) needed="$needed python3 python3-venv python3-dev libopenblas0-pthread" tools="$tools python3" ;;
    *) echo "setup: '$what' is not one of build, test, lint, fuzz, peers" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  missing=
  for tool in $tools; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
  [ -z "$missing" ] && exit 0
  echo "setup: not found:$missing" >&2
  echo "setup: this is not Debian; install them and what these packages stand for:$needed" >&2
  exit 1
fi

# The packages of "$@" that are not installed.
lacking() {
  there=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    echo "$there" | grep -qxF "$package installed" || printf ' %s' "$package"
  done
}

# shellcheck disable=SC2086  # lists of words, here and below
{
  missing=$(lacking $needed)
  extra=
  [ -z "$optional" ] || extra=$(lacking $optional)
}
[ -n "$missing$extra" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
  elif [ -n "$missing" ]; then
    echo "setup: missing:$missing; to install them:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing$extra" >&2
    echo "setup: where they are installed some other way, REEL_NO_SETUP=1 skips this check" >&2
    exit 1
  else
    exit 0  # only what is optional is missing: the build says so and goes on
  fi
fi

install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing$missing$extra" >&2
$as_root apt-get update -qq >"$log" 2>&1 || { tail -n 5 "$log"; echo "setup: apt-get update failed; going on"; } >&2
# shellcheck disable=SC2086
if install $missing $extra; then
  exit 0
elif [ -z "$missing" ] || install $missing; then
  without=
  for package in $extra; do install "$package" || without="$without $package"; done
  [ -z "$without" ] || echo "setup: could not install$without; going on without (REEL_NO_MPI=1, REEL_NO_FFMPEG=1 stop asking)" >&2
else
  tail -n 20 "$log" >&2
  echo "setup: could not install the packages named above" >&2
  exit 1
fi
