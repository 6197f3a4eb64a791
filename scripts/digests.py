#!/usr/bin/env python3
"""Inputs and digests of scripts/same_bits.sh.

make FOLDER          writes 50 masks (masks/*.safetensors) and tables of 200 jobs (jobs-gpt.csv, jobs-dit.csv), the same every time
compare OLD NEW      digests of all results in two folders: every one of OLD has to stand in NEW; exits with 1 otherwise
"""

import csv
import hashlib
import json
import random
import struct
import sys
from pathlib import Path

# What follows from the work, not from the clock, in metrics.jsonl and in JSON results.
METRICS = ("loss", "validation_loss", "gradient_norm", "learning_rate", "kept_keys", "sparse_heads", "sparsity_fallbacks")
CLOCK = ("plan_seconds", "simulate_seconds")


def make(folder):
    masks = folder / "masks"
    masks.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    for number in range(50):
        heads, blocks = draw.randint(3, 24), draw.randint(8, 40)
        share = [draw.betavariate(0.7, 3) for _ in range(heads)]
        cells = bytearray()
        for head in range(heads):
            for row in range(blocks):
                for column in range(blocks):
                    near = abs(row - column) <= 1
                    cells.append(1 if near or draw.random() < share[head] else 0)
        header = json.dumps({"mask": {"dtype": "U8", "shape": [heads, blocks, blocks], "data_offsets": [0, len(cells)]}})
        (masks / f"mask-{number:02}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(cells))
    gpt = ["model.hidden,model.layers,model.heads,model.sequence,parallel.tensor,parallel.pipeline,parallel.interleave,"
           "parallel.data,parallel.zero,parallel.sequence_parallel,batch.micro,batch.global,memory.recompute,overlap.gradients"]
    for _ in range(120):
        tensor, pipeline, data, micro = (2 ** draw.randint(0, most) for most in (3, 2, 4, 2))
        heads, interleave = 8 * draw.randint(2, 8), draw.choice([1, 1, 2]) if pipeline > 1 else 1
        yes_no = [draw.choice(["true", "false"]) for _ in range(2)]
        gpt.append(
            f"{heads * 128},{8 * draw.randint(2, 6)},{heads},{2048 * draw.randint(1, 4)},{tensor},{pipeline},{interleave},{data},"
            f"{draw.choice([0, 1])},{yes_no[0]},{micro},{data * micro * draw.choice([4, 8, 16])},"
            f"{draw.choice(['none', 'selective', 'full'])},{yes_no[1]}"
        )
    (folder / "jobs-gpt.csv").write_text("\n".join(gpt) + "\n")
    dit = ["model.kind,model.hidden,model.layers,model.heads,model.frames,model.height,model.width,model.text,model.attention,"
           "model.sparsity,parallel.plan,parallel.data,parallel.zero,memory.recompute,overlap.gradients"]
    for _ in range(80):
        heads, axes = 8 * draw.randint(1, 4), draw.random() < 0.3
        plan = draw.choice(["dsp=2", "dsp=8"] if axes else ["ulysses=2", "ring=4", "ulysses=4,ring=2", "ulysses=8", ""])
        dit.append(
            f"dit,{heads * 128},{draw.randint(8, 32)},{heads},{8 * draw.randint(1, 5)},32,{16 * draw.randint(2, 5)},"
            f"{draw.choice([0, 120])},{'spatial-temporal' if axes else '3d'},{'' if axes else draw.choice(['', 0.8, 0.95])},"
            f'"{plan}",{2 ** draw.randint(0, 3)},{draw.choice([0, 1, 3])},{draw.choice(["none", "full"])},true'
        )
    (folder / "jobs-dit.csv").write_text("\n".join(dit) + "\n")


def tensors(path):
    """(name, digest) of every tensor of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    for name, entry in sorted(header.items()):
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            body = data[8 + size + begin : 8 + size + end]
            yield name, digest(json.dumps([entry["dtype"], entry["shape"]]).encode() + body)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def digests(folder):
    """{"file" or "file: tensor or line": digest}"""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            found.update({f"{name}: {tensor}": value for tensor, value in tensors(path)})
        elif path.name == "metrics.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            kept = [{key: line[key] for key in ("step", *METRICS) if key in line} for line in lines]
            found[name] = digest(json.dumps([line for line in kept if len(line) > 1]).encode())
        elif path.suffix == ".json" and path.parent == folder:
            content = json.loads(path.read_text())
            found[name] = digest(json.dumps({k: v for k, v in content.items() if k not in CLOCK}).encode())
        elif path.suffix == ".csv":
            rows = list(csv.DictReader(path.open()))
            found[name] = digest(json.dumps([{k: v for k, v in row.items() if k not in CLOCK} for row in rows]).encode())
        elif path.suffix == ".png":
            found[name] = digest(path.read_bytes())
    return found


def compare(old, new):
    before, after = digests(old), digests(new)
    missing = [name for name in before if name not in after]
    different = [name for name in before if name in after and before[name] != after[name]]
    for word, names in (("missing", missing), ("different", different)):
        for name in names[:40]:
            print(f"{word}: {name}")
        if len(names) > 40:
            print(f"{word}: {len(names) - 40} more")
    added = sum(name not in before for name in after)
    print(f"same_bits: {len(before) - len(missing) - len(different)} the same, {len(different)} different, {len(missing)} missing, {added} new")
    return 1 if missing or different or not before else 0


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "make":
        make(Path(arguments[1]))
        return 0
    if len(arguments) == 3 and arguments[0] == "compare":
        return compare(Path(arguments[1]), Path(arguments[2]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
