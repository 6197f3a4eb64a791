#!/usr/bin/env python3
"""One training step of a Wan model: reel beside diffusers' WanTransformer3DModel, for bench/peers.py --only train.

    build/venv/bin/python bench/peers_train.py --threads 2 --steps 2      the torch side alone, as JSON

The shape is the default of `reel bench train`: 8 layers, 6 heads x 64, latents 16 x 16 x 32 x 32 = 4,096 tokens, 32 x 512 of text.
Forward, mean squared error, backward, AdamW; f32, nothing recomputed. Torch runs eagerly, with its fused AdamW, in a process of its
own for each round, so that its memory is free again when reel's turn comes.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

MODEL = dict(num_layers=8, num_attention_heads=6, attention_head_dim=64, ffn_dim=1536, text_dim=512, freq_dim=256)
LATENTS, TEXT = (1, 16, 16, 32, 32), (1, 32, 512)
STEPS = 2  # of torch in a round, after one that does not count


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def torch_steps(threads, steps):
    import torch
    from diffusers import WanTransformer3DModel

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here: imports need more for a moment
    before = resident_bytes()
    model = WanTransformer3DModel(in_channels=LATENTS[1], out_channels=LATENTS[1], **MODEL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    noisy, target, text = torch.randn(LATENTS), torch.randn(LATENTS), torch.randn(TEXT)
    timestep = torch.tensor([500.0])

    def step():
        optimizer.zero_grad()
        answer = model(hidden_states=noisy, timestep=timestep, encoder_hidden_states=text, return_dict=False)[0]
        torch.nn.functional.mse_loss(answer, target).backward()
        optimizer.step()

    step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "peak_bytes": peak_bytes() - before}


def torch_process(threads):
    command = [sys.executable, __file__, "--threads", str(threads), "--steps", str(STEPS)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"peers: {' '.join(command)} failed:\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def compare(measure_reel, threads, rounds):
    """Takes turns, prints, and returns the result. measure_reel gives the row of one `reel bench train`."""
    seconds = {"reel": [], "torch": []}
    memory = {"reel": 0, "torch": 0}
    for _ in range(rounds):
        mine = measure_reel()
        seconds["reel"].append(mine["seconds"])
        memory["reel"] = max(memory["reel"], mine["peak_bytes"])
        theirs = torch_process(threads)
        seconds["torch"] += theirs["seconds"]
        memory["torch"] = max(memory["torch"], theirs["peak_bytes"])

    print("\ntrain step, wan 8 layers x 384, 4,096 tokens     best   median   peak memory")
    for who in seconds:
        print(f"  {who:42}  {min(seconds[who]):6.3f} s {statistics.median(seconds[who]):6.3f} s {memory[who] / 1e9:9.2f} GB")
    speedup = min(seconds["torch"]) / min(seconds["reel"])
    print(f"train: torch takes {speedup:.2f} times reel's time and {memory['torch'] / memory['reel']:.2f} times its memory")
    return {
        "case": "train step against torch",
        "seconds": min(seconds["reel"]),
        "median_seconds": statistics.median(seconds["reel"]),
        "peak_bytes": memory["reel"],
        "peer_seconds": min(seconds["torch"]),
        "peer_median_seconds": statistics.median(seconds["torch"]),
        "peer_peak_bytes": memory["torch"],
        "speedup": speedup,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    print(json.dumps(torch_steps(arguments.threads, arguments.steps)))
