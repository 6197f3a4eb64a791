#!/usr/bin/env python3
"""Kills one rank of a training run at random moments, resumes, and checks that it ends as if nothing had happened.

    scripts/kill_ranks.py [--kills 20] [--ranks 2] [--reel build/reel] [--mpirun mpirun]

A small run is trained in one go on all ranks. Then the same run is started again and again and one of its ranks is killed
(SIGKILL): mpirun must end with an error within seconds, and RUN/latest must name a whole checkpoint. When there were
enough kills the run goes on to its end: weights, averages and the optimizer's state must be those of the run in one go,
byte for byte. Kills are drawn from REEL_TEST_SEED where it is set.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import soak_resume

STEPS = 30


def fail(message):
    sys.exit(f"kill_ranks: {message}")


def start(args, file, run):
    command = [args.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(args.ranks)]
    command += [args.reel, "train", file, "--out", run, "--resume", "--set", "train.threads=1"]
    with open(f"{run}.log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def ranks_of(process):
    """Process numbers of the ranks, which are children of mpirun."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "reel"]
    except OSError:
        return []


def kill_once(args, file, run, rng):
    """Starts or resumes the run and kills a rank at some moment; True if it was alive then."""
    process = start(args, file, run)
    log = Path(f"{run}.log")
    while process.poll() is None and "step " not in log.read_text():
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.5))
    ranks = ranks_of(process)
    if ranks:
        os.kill(rng.choice(ranks), signal.SIGKILL)
    try:
        status = process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        fail("mpirun still runs 30 s after one of its ranks was killed")
    if ranks and status == 0 and f"done at step {STEPS}" not in log.read_text():
        fail("a rank was killed and mpirun says that all went well")
    soak_resume.check_whole(run)
    return bool(ranks) and status != 0


def same(a, b):
    names = [f"latest/{name}.safetensors" for name in soak_resume.WEIGHTS]
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--reel", default=str(Path(__file__).resolve().parent.parent / "build/reel"))
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    rng = random.Random(int(os.environ.get("REEL_TEST_SEED", "1")))
    folder = Path(tempfile.mkdtemp(prefix="reel_kill_ranks_"))
    try:
        file = folder / "run.toml"
        file.write_text(soak_resume.run_file(STEPS, batch=4))
        whole, broken = folder / "whole", folder / "broken"
        if start(args, file, whole).wait() != 0:
            fail("reel train failed:\n" + Path(f"{whole}.log").read_text())
        kills = 0
        while kills < args.kills:
            kills += kill_once(args, file, broken, rng)
            if (broken / "latest").is_symlink() and (broken / "latest").readlink().name == f"step-{STEPS:06}":
                if not same(whole, broken):
                    fail("the resumed run ends with other weights")
                shutil.rmtree(broken)
        if start(args, file, broken).wait() != 0:
            fail("the last resume failed:\n" + Path(f"{broken}.log").read_text())
        if not same(whole, broken):
            fail("the resumed run ends with other weights")
        print(f"kill_ranks: {kills} kills on {args.ranks} ranks, same bits")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
