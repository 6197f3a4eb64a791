#!/usr/bin/env bash
# How much of a ring's transfers is exposed: attention over 4,096 places on two hosts at 1gbit, one thread each, with and
# without polling. Compute is several times the transfer.
#
#   bench/ring.sh [rate, 1gbit]
set -euo pipefail
cd "$(dirname "$0")/.."
rate=${1:-1gbit}
shape=(--set video.frames=1 --set video.height=128 --set video.width=128 --set model.layers=1)
for poll in "" --no-poll; do
  bench/sequence.sh 2 "$rate" "${shape[@]}" $poll --only ring --steps 5
  [ -s build/bench/sequence.json ] || exit 0
  python3 - "${poll:-with polling}" <<'END'
import json, sys
ring = json.load(open("build/bench/sequence.json"))["rows"][0]
transfer, waited = ring["transfer_seconds"], ring["exposed_seconds"]
print(f"ring, {sys.argv[1]}: {transfer:.3f} s of transfer, {waited:.3f} s of it waited for: {100 * waited / transfer:.0f} % "
      f"exposed; pass {ring['seconds']:.3f} s, {ring['free_network_seconds']:.3f} s if the network cost nothing\n")
END
done
