#!/usr/bin/env bash
# Ways to cut a sequence on slow links: `reel bench sequence` on hosts made of network namespaces (bench/netcluster).
#
#   bench/sequence.sh [hosts, 4] [rate, 1gbit] [further options of reel bench sequence]
#
# Says "skipped" and succeeds where namespaces cannot be made (they need root, iproute2 and the kernel's leave).
set -euo pipefail
cd "$(dirname "$0")/.."

hosts=${1:-4}
rate=${2:-1gbit}
[ $# -lt 1 ] || shift
[ $# -lt 1 ] || shift

skip() { echo "bench/sequence.sh: skipped: $*"; exit 0; }
[ "$(id -u)" -eq 0 ] || skip "must be root to make network namespaces"
for tool in ip tc; do command -v $tool >/dev/null || skip "no $tool (Debian: iproute2)"; done
command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin)"
[ -x build/reel ] || { echo "bench/sequence.sh: no build/reel: make build" >&2; exit 1; }
bench/netcluster up "$hosts" --rate "$rate" || skip "this machine does not let us make network namespaces"
trap 'bench/netcluster down' EXIT

# Eager messages: without, an all-to-all reaches half of the links' rate, since every message first asks the other side.
# Keepalive: a link that is cut ends the job after some seconds instead of never.
export OMPI_MCA_btl_tcp_eager_limit=${OMPI_MCA_btl_tcp_eager_limit:-16000000}
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3
mkdir -p build/bench
echo "$hosts hosts at $rate, one thread each"
bench/netcluster run -- "$PWD/build/reel" bench sequence --threads 1 --json "$PWD/build/bench/sequence.json" "$@"
