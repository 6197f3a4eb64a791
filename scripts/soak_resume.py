#!/usr/bin/env python3
"""Kills training runs at random moments, resumes them, and checks that they end as if nothing had happened.

    scripts/soak_resume.py [kills, 50] [minutes, 10]

A small run is trained in one go. Then the same run is started again and again, each time with another number of
threads, and killed (SIGKILL) until it has come to its end nevertheless; that is repeated until there were enough kills
or the time is over. Whenever it was killed, RUN/latest must name a whole checkpoint. At its end weights, their average,
the optimizer's state and the samples must be those of the run in one go, byte for byte, and metrics.jsonl must have
every step once. A checkpoint is written at every step, so that many kills hit the writing.

Kills are drawn from REEL_TEST_SEED where it is set.
"""

import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"
STEPS = 40
WEIGHTS = ["diffusion_pytorch_model", "ema", "optimizer"]  # safetensors of a checkpoint


def run_file(steps, batch):
    """A small run that writes a checkpoint at every step."""
    return f"""
[model]
layers = 2
heads = 2
head_dim = 16
patch = [1, 4, 4]
[video]
frames = 2
height = 8
width = 8
[data]
validation = 2
[train]
steps = {steps}
batch = {batch}
ema = 0.9
checkpoint_every = 1
validate_every = 10
sample_every = 15
samples = 1
sample_steps = 2
"""


def fail(message):
    sys.exit(f"soak: {message}")


def start(file, run, threads):
    command = [BUILD / "reel", "train", file, "--out", run, "--resume", "--set", f"train.threads={threads}"]
    with open(f"{run}.log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def train_to_the_end(file, run):
    if (status := start(file, run, 2).wait()) != 0:
        print(Path(f"{run}.log").read_text())
        fail(f"reel train ended with {status}")


def steps_in(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if "loss" in row]


def check_whole(run):
    """Fails unless RUN/latest is absent or names a checkpoint whose files are all there and complete."""
    latest = run / "latest"
    if not latest.is_symlink():
        return
    try:
        json.loads((latest / "state.json").read_text())
        json.loads((latest / "config.json").read_text())
        for name in WEIGHTS:
            data = (latest / f"{name}.safetensors").read_bytes()
            size = int.from_bytes(data[:8], "little")
            tensors = json.loads(data[8 : 8 + size])
            end = max(each["data_offsets"][1] for key, each in tensors.items() if key != "__metadata__")
            if len(data) != 8 + size + end:
                fail(f"{latest}/{name}.safetensors is not whole")
    except (OSError, ValueError) as error:
        fail(f"{latest} is not whole: {error}")


def look(run):
    """{name in RUN: when it was changed}; of the link also where it points."""
    found = {}
    for path in run.rglob("*"):
        found[str(path.relative_to(run))] = (path.lstat().st_ino, path.lstat().st_mtime_ns)
    found["latest"] = os.readlink(run / "latest") if (run / "latest").is_symlink() else ""
    return found


def phase(run, before, training):
    """What the process was doing, from what it left behind; `before` is what there was when it began."""
    now = look(run)
    new = {name for name in now if now[name] != before.get(name)}
    checkpoints = sorted(name for name in now if name.startswith("checkpoints/step-") and name.count("/") == 1)
    if "checkpoints/.writing" in new:
        return "writing a checkpoint"
    if ".latest" in new or (checkpoints and checkpoints[-1] > now["latest"] and checkpoints[-1] in new):
        return "between a checkpoint and the link to it"
    whole = all((run / name / "state.json").exists() for name in checkpoints)
    if "latest" in new and (len(checkpoints) > 2 or not whole):
        return "removing an old checkpoint"
    if any(name.endswith(".tmp") for name in new):
        return "writing another file"
    return "in steps, validation, samples and the page" if training else "before the first step"


def live(file, run, rng):
    """Starts or resumes the run and kills it at some moment. Gives the phase, or None when it came to its end."""
    before = look(run)
    process = start(file, run, rng.randint(1, 3))
    log = Path(f"{run}.log")
    if rng.random() < 0.9:  # the others are killed while they start
        while process.poll() is None and "step " not in log.read_text():
            time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.3))
    process.kill()
    status = process.wait()
    if status == 0:
        return None
    if status != -9:
        print(log.read_text())
        fail(f"reel train ended with {status}")
    check_whole(run)
    return phase(run, before, "step " in log.read_text())


def compare(straight, run):
    for name in WEIGHTS:
        name = f"latest/{name}.safetensors"
        if (straight / name).read_bytes() != (run / name).read_bytes():
            fail(f"{run / name} is not what the run in one go gave")
    for sample in (straight / "samples").iterdir():
        if sample.read_bytes() != (run / "samples" / sample.name).read_bytes():
            fail(f"{run}/samples/{sample.name} is not what the run in one go gave")
    if steps_in(run) != list(range(1, STEPS + 1)):
        fail(f"{run}/metrics.jsonl has the steps {steps_in(run)}")


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    end = time.monotonic() + 60 * float(sys.argv[2] if len(sys.argv) > 2 else 10)
    seed = os.environ.get("REEL_TEST_SEED", "1")
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=BUILD))
    file = folder / "soak.toml"
    file.write_text(run_file(STEPS, batch=2))
    train_to_the_end(file, folder / "straight")
    phases, runs = collections.Counter(), 0
    while phases.total() < kills and time.monotonic() < end:
        run = folder / f"killed-{runs}"
        while phases.total() < kills and time.monotonic() < end and (hit := live(file, run, rng)) is not None:
            phases[hit] += 1
        train_to_the_end(file, run)
        compare(folder / "straight", run)
        runs += 1
    shutil.rmtree(folder)
    print(f"soak: {runs} runs were killed {phases.total()} times (seed {seed}) and ended with the same bytes; killed")
    for name, count in phases.most_common():
        print(f"soak: {count:5}  {name}")


if __name__ == "__main__":
    main()
