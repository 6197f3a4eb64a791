#!/usr/bin/env bash
# Builds two commits, runs the same jobs with both and compares what they leave behind, bit for bit.
#
#   scripts/same_bits.sh OLD NEW      two commits; a folder that holds a build/reel serves as well, "." for this one
#
# Jobs: training of each family (one rank, and dsp, ulysses x ring with dynamic sparsity on 2 and 4 ranks), sampling, 200
# simulated jobs, plans of 50 masks. Compared are weights, losses, key lists, samples, tables and plans (digests.py). What only
# NEW leaves behind is counted, not an error. Results stay in build/same_bits. Exits with 1 where anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
(($# == 2)) || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
top=$PWD/build/same_bits
mkdir -p "$top"

# program NAME WHAT: prints the path of the program, built where WHAT is a commit.
program() {
  if [ -x "$2/build/reel" ]; then
    echo "$(cd "$2" && pwd)/build/reel"
    return
  fi
  local commit source
  commit=$(git rev-parse --verify "$2^{commit}")
  source=$top/source-$commit
  if [ ! -d "$source" ]; then
    mkdir -p "$source.part"
    git archive "$commit" | tar -C "$source.part" -xf -
    mv "$source.part" "$source"
  fi
  (cd "$source" && cmake --preset release -DREEL_TESTS=OFF && cmake --build build --target reel) >"$top/$1-build.log" 2>&1 ||
    { tail -n 20 "$top/$1-build.log" >&2; exit 1; }
  echo "$source/build/reel"
}

# Small runs of every kind: a name, the number of ranks, the run file, further arguments.
write_configs() {
  cat >"$top/stdit3.toml" <<'TOML'
[model]
family = "stdit3"
layers = 2
heads = 4
head_dim = 24
patch = [1, 4, 4]
[video]
frames = 5
height = 24
width = 32
[train]
steps = 5
batch = 4
samples = 2
TOML
  cat >"$top/latte.toml" <<'TOML'
[model]
family = "latte"
layers = 2
heads = 4
head_dim = 24
patch = [1, 4, 4]
sigma = true
[video]
frames = 5
height = 24
width = 32
[diffusion]
kind = "ddpm"
[train]
steps = 5
batch = 2
recompute = true
ema = 0.9
samples = 2
TOML
}

# jobs REEL OUT: everything that is compared, below OUT. Configurations are those of this checkout for both programs.
jobs() {
  local reel=$1 out=$2 log=$2/log
  local ranks=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
  local dynamic=(--set sparsity.mode=dynamic sparsity.break_even=0.6 sparsity.samples=16 sparsity.profile_every=5 sparsity.start=2
    train.checkpoint_every=20 train.steps=20)
  rm -rf "$out"
  mkdir -p "$out"
  run() { "$@" >>"$log" 2>&1 || { echo "same_bits: failed: $*" >&2; tail -n 5 "$log" >&2; exit 1; }; }
  export OMPI_MCA_mpi_yield_when_idle=1
  run "$reel" train configs/shapes.toml --set train.steps=20 train.samples=2 train.sample_every=20 --out "$out/shapes"
  run "$reel" sample "$out/shapes" --label "disc right" --seed 3 --steps 5 --out "$out/sample.png"
  run "$reel" train configs/storyboard-b.toml "${dynamic[@]}" --dump-masks "$out/masks" --dump-every 5 --out "$out/dynamic"
  run "$reel" train configs/storyboard-b.toml "${dynamic[@]}" sparsity.predictor=hidden train.recompute=true train.accumulate=2 \
    --dump-masks "$out/masks-hidden" --dump-every 10 --out "$out/hidden"
  for mode in window random static own; do
    run "$reel" train configs/storyboard-b.toml --set sparsity.mode=$mode train.steps=8 --out "$out/$mode"
  done
  run "${ranks[@]}" -n 4 "$reel" train configs/storyboard-b.toml "${dynamic[@]}" --parallel ulysses=2,ring=2 \
    --dump-masks "$out/masks-4" --dump-every 5 --out "$out/dynamic-4"
  run "${ranks[@]}" -n 4 "$reel" train configs/storyboard-b.toml "${dynamic[@]}" train.batch=2 --parallel ulysses=2 --out "$out/dynamic-2x2"
  run "$reel" train "$top/stdit3.toml" --out "$out/stdit3"
  run "${ranks[@]}" -n 4 "$reel" train "$top/stdit3.toml" --parallel dsp=2 --out "$out/stdit3-dsp"
  run "$reel" train "$top/latte.toml" --out "$out/latte"
  run "${ranks[@]}" -n 3 "$reel" sample "$out/dynamic" --count 3 --steps 4 --seed 5 --parallel ulysses=3 --out "$out/sample-sparse.png"
  for kind in gpt dit; do
    run "$reel" simulate --table "$top/jobs-$kind.csv" --cluster h100-ndr400 --out "$out/jobs-$kind.csv"
  done
  for plan in ulysses=8 ulysses=2,ring=4; do
    run "$reel" simulate jobs/dsv-2.7b-130k.toml --cluster h800 --devices 64 --set "parallel.plan=\"$plan\"" --json "$out/$plan.json"
  done
  for mask in "$top"/masks/*.safetensors; do
    run "$reel" plan partition "$mask" --ranks 8 --cluster h800 --json "$out/$(basename "$mask").json"
  done
}

old=$(program old "$1")
new=$(program new "$2")
write_configs
python3 scripts/digests.py make "$top"
jobs "$old" "$top/old"
jobs "$new" "$top/new"
python3 scripts/digests.py compare "$top/old" "$top/new"
