#!/usr/bin/env python3
"""reel denoise beside torch: sample, loss and every gradient of one pass.

    check.py MODEL_DIR...      models on disk: with their in.safetensors and lists.safetensors where there are any, else random inputs
    check.py --random N        N random models of other shapes than the fixtures
    check.py --self ...        torch in f32 in the place of reel: how much of the allowance f32 itself takes

Torch computes in f64, so a difference is reel's. A tensor passes when its largest difference is at most 1e-4 of its largest value,
or 1e-6 of the largest gradient of the model, whichever allows more: some gradients are zero but for rounding. Exit status 1 if one
does not pass.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import cases
import make_fixtures
import oracle

REEL = Path(__file__).resolve().parents[2] / "build" / "reel"
OF_ITSELF, OF_GRADIENTS = 1e-4, 1e-6


def random_config(draw):
    head_dim = 8 * draw.randint(1, 16)
    heads = draw.randint(1, max(1, min(4, 256 // head_dim)))
    layers, patch = draw.randint(1, 3), [draw.choice([1, 1, 2]), draw.choice([1, 2, 2, 3]), draw.choice([1, 2, 2, 3])]
    text = draw.randint(4, 40)
    kind = draw.choice(["wan", "official", "latte", "stdit3"])
    if kind == "wan":
        more = dict(freq_dim=2 * draw.randint(4, 128), ffn_dim=draw.randint(8, 300), eps=draw.choice([1e-6, 1e-5]))
        more.update(in_channels=draw.randint(1, 17), out_channels=draw.randint(1, 17), cross_attn_norm=draw.random() < 0.5)
        return make_fixtures.wan(heads, head_dim, layers, patch_size=patch, text_dim=text, **more)
    if kind == "official":
        return make_fixtures.wan_official(heads, head_dim, layers)
    if kind == "latte":
        more = dict(patch_size=draw.choice([1, 2, 4]), video_length=draw.randint(1, 7), sample_size=draw.choice([8, 16, 64, 128, 200]))
        more.update(in_channels=draw.randint(1, 8), out_channels=draw.randint(1, 16), caption_channels=text)
        return make_fixtures.latte(heads, head_dim, layers, **more)
    more = dict(patch_size=patch, mlp_ratio=draw.choice([1.5, 4.0]), pred_sigma=draw.random() < 0.5, qk_norm=draw.random() < 0.7)
    more.update(in_channels=draw.randint(1, 8), caption_channels=text, input_sq_size=draw.choice([32, 256, 512]))
    return make_fixtures.stdit3(heads, head_dim, layers, model_max_length=16, **more)


def random_size(draw, config):
    """batch, T, H, W: whole patches where the model needs them, anything for stdit3."""
    _, patch, _, _ = cases.latents(config)
    frames, rows, columns = (draw.randint(1, most) * each for most, each in zip((6, 8, 8), patch))
    if config["_class_name"] == "LatteTransformer3DModel":
        frames = draw.choice([1, config["video_length"], config["video_length"]])
    if config["_class_name"] == "STDiT3":
        frames, rows, columns = (length + draw.randint(0, 1) for length in (frames, rows, columns))
    return draw.randint(1, 3), frames, rows, columns


def write_random(folder, seed):
    """A random model with inputs, and for every other Wan key lists."""
    draw = random.Random(seed)
    config = random_config(draw)
    cases.save_model(folder, config, cases.random_model(config, seed), shards=draw.choice([1, 1, 2]))
    config, model = oracle.load(folder)
    size, masks = random_size(draw, config), dict(mask=draw.random() < 0.5, x_mask=draw.random() < 0.5)
    text = draw.randint(1, config.get("text_len", 16))
    save_file(cases.random_inputs(config, model, size, text, seed, **masks), folder / "in.safetensors")
    if config["_class_name"].startswith("Wan") and draw.random() < 0.5:
        _, patch, _, heads = cases.latents(config)
        tokens = (size[1] // patch[0]) * (size[2] // patch[1]) * (size[3] // patch[2])
        cases.save_lists(folder / "lists.safetensors", *cases.random_lists(size[0], heads, tokens, draw.choice([1, 64]), seed))


def run_reel(reel, folder, inputs, lists):
    with tempfile.TemporaryDirectory() as scratch:
        given, answer = Path(scratch) / "in.safetensors", Path(scratch) / "out.safetensors"
        save_file(inputs, given)
        command = [reel, "denoise", folder, "--inputs", given, "--outputs", answer, "--gradients"]
        command += ["--lists", lists] if lists else []
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"check: {' '.join(map(str, command))} failed:\n{run.stdout}{run.stderr}")
        return load_file(answer)


def compare(expected, got):
    """(difference / what is allowed, the difference in words, name) of every tensor, worst first."""
    largest_gradient = max(value.abs().max().item() for name, value in expected.items() if name.startswith("grad."))
    rows = [(float("inf"), "not expected", name) for name in got.keys() - expected.keys()]
    for name, value in expected.items():
        if name not in got:
            rows.append((float("inf"), "missing", name))
            continue
        if got[name].shape != value.shape and value.numel() != 1:
            rows.append((float("inf"), f"{list(got[name].shape)} instead of {list(value.shape)}", name))
            continue
        difference = (got[name].double().flatten() - value.flatten()).abs().max().item()
        largest = value.abs().max().item()
        beside_others = OF_GRADIENTS * largest_gradient if name.startswith("grad.") else 0.0
        allowed = max(OF_ITSELF * largest, beside_others, 1e-300)
        words = f"{difference / largest:.2e} of its largest" if OF_ITSELF * largest > beside_others else "small beside the others"
        # A NaN compares as false, and shall not pass.
        rows.append((difference / allowed if difference < float("inf") else float("inf"), words, name))
    return sorted(rows, reverse=True)


def check(folder, options, label):
    config, model = oracle.load(folder)
    lists = folder / "lists.safetensors" if (folder / "lists.safetensors").exists() else None
    if (folder / "in.safetensors").exists():
        inputs = load_file(folder / "in.safetensors")
    else:
        _, patch, _, _ = cases.latents(config)
        frames = config.get("video_length", 3 * patch[0])
        inputs = cases.random_inputs(config, model, (1, frames, 4 * patch[1], 6 * patch[2]), 8, options.seed)
    got = oracle.evaluate(config, model, inputs, lists) if options.self else run_reel(options.reel, folder, inputs, lists)
    rows = compare(oracle.evaluate(config, model.double(), inputs, lists), got)
    failed = [row for row in rows if row[0] > 1]
    shape = "x".join(map(str, inputs["hidden_states"].shape))
    print(f"{'ok  ' if not failed else 'FAIL'} {label}: {config['_class_name']} {shape}{' lists' if lists else ''}, {len(rows)} tensors")
    for share, words, name in rows if options.all else failed or rows[:1]:
        print(f"       {words:24} {share:.2e} of what is allowed  {name}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL_DIR")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of the first random model; the next has the next seed")
    parser.add_argument("--self", action="store_true")
    parser.add_argument("--reel", type=Path, default=REEL)
    parser.add_argument("--all", action="store_true", help="print every tensor, not the worst one or those that failed")
    options = parser.parse_args()
    if not options.models and not options.random:
        parser.error("give a MODEL_DIR or --random N")
    if not options.self and not options.reel.exists():
        sys.exit(f"check: {options.reel} is not there; run `make build`")

    rows = []
    for folder in options.models:
        rows += check(folder, options, folder)
    for seed in range(options.seed, options.seed + options.random):
        with tempfile.TemporaryDirectory() as scratch:
            write_random(Path(scratch), seed)
            rows += check(Path(scratch), options, f"seed {seed}")
    failed = sum(row[0] > 1 for row in rows)
    print(f"{len(rows)} tensors, {failed} failed, the worst at {max(row[0] for row in rows):.2e} of what is allowed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
