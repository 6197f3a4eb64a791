#!/bin/sh
# Kills and resumes training runs (soak_resume.py), does the same with ranks (kill_ranks.py) and links (cut_link.sh), runs the
# tests of many ranks on 6 and 8, then runs the randomised attention tests with ever new seeds for
# SOAK_MINUTES. Stops at the first failure and says how to repeat it.
set -eu
cd "$(dirname "$0")/.."

python3 scripts/soak_resume.py
if [ -x build/ranks_test ]; then
  for ranks in 6 8; do
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n $ranks build/ranks_test --gtest_brief=1
  done
  python3 scripts/kill_ranks.py --kills 20 --ranks 3
  scripts/cut_link.sh
fi

test=build/attention_test
log=build/soak.log
end=$(($(date +%s) + ${SOAK_MINUTES:=30} * 60))
seed=1
while [ "$(date +%s)" -lt "$end" ]; do
  if ! REEL_TEST_SEED=$seed "$test" --gtest_brief=1 >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "soak: failed; to repeat: REEL_TEST_SEED=$seed $test"
    exit 1
  fi
  seed=$((seed + 1))
done
echo "soak: $((seed - 1)) seeds passed in $SOAK_MINUTES minutes"
