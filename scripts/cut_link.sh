#!/usr/bin/env bash
# Trains on two hosts made of network namespaces (bench/netcluster), unplugs one of them, and checks that the job ends by
# itself within a minute (parallel.wait_seconds is 10), that the last checkpoint is whole, and that the resumed run ends with
# the bits of one that was never cut. Says "skipped" where namespaces cannot be made.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "cut_link: skipped: $*"; exit 0; }
fail() { echo "cut_link: $*" >&2; tail -n 20 "$folder"/*.log >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || skip "must be root to make network namespaces"
for tool in ip tc; do command -v $tool >/dev/null || skip "no $tool (Debian: iproute2)"; done
command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin)"
bench/netcluster up 2 --rate 1gbit || skip "this machine does not let us make network namespaces"
folder=$(mktemp -d)
trap 'bench/netcluster down; rm -rf "$folder"' EXIT
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3

PYTHONPATH=scripts python3 -c 'import soak_resume; print(soak_resume.run_file(steps=20, batch=4))' >"$folder/run.toml"

train() {
  bench/netcluster run -- "$PWD/build/reel" train "$folder/run.toml" --out "$folder/$1" --resume \
    --set train.threads=1 --set parallel.wait_seconds=10 >"$folder/$1.log" 2>&1
}

train whole || fail "the run on two hosts failed"
train cut &
job=$!
until [ -e "$folder/cut/latest" ]; do
  kill -0 $job 2>/dev/null || fail "the run ended before it was cut"
  sleep 0.05
done
bench/netcluster cut 1
before=$(date +%s)
if wait $job; then fail "the run did not notice that a host was gone"; fi
seconds=$(($(date +%s) - before))
[ "$seconds" -le 60 ] || fail "it took $seconds s to notice"
bench/netcluster heal 1
[ -s "$folder/cut/latest/state.json" ] || fail "no whole checkpoint is left"
train cut || fail "the resumed run failed"
for file in diffusion_pytorch_model optimizer; do
  cmp -s "$folder/whole/latest/$file.safetensors" "$folder/cut/latest/$file.safetensors" || fail "$file differs"
done
echo "cut_link: noticed after $seconds s, same bits after the resume"
