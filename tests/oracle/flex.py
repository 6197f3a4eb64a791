#!/usr/bin/env python3
"""torch's flex_attention with what `reel export` writes, beside `reel denoise` with the same key lists.

    flex.py [--reel build/reel] [--seed 1]

A tiny random Wan: q and k of a layer are dumped as docs/bring-your-own.md shows, `reel study lists` chooses keys, `reel export`
writes a BlockMask. Then the model runs in torch with flex_attention (compiled: without that torch ignores the blocks of the mask
and reads mask_mod alone) and that mask in every self-attention, and in reel with the lists. Both must agree:

    blocks    lists chosen in blocks of 64, exported as 64 x 64 blocks, no mask_mod
    cover     lists of single keys, exported with --cover: full and partial blocks, mask_mod from token_mask
    budget    lists of single keys, exported as blocks of equal work; reel is given the blocks as lists

Runs on a CPU, in f32. Exit status 1 if a sample differs by more than 1e-4 of its largest value.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from diffusers.models.transformers import transformer_wan
from safetensors.torch import load_file, save_file
from torch.nn.attention.flex_attention import BlockMask, flex_attention

import cases
import make_fixtures
import oracle

REEL = Path(__file__).resolve().parents[2] / "build" / "reel"
ALLOWED = 1e-4
SIZE = (1, 5, 8, 30)  # batch, frames, rows, columns of latents; patches of 1 x 2 x 2: 300 tokens, no multiple of 64
FIELDS = ("q", "k", "v")

attend = transformer_wan.dispatch_attention_fn
compiled = torch.compile(flex_attention, dynamic=False)


def dump(model, layer, inputs, config, path):
    here = {}

    def dumping(q, k, v, **rest):  # [batch, tokens, heads, head_dim], after norm and RoPE
        if "hidden" in here:
            tensors = {name: x[0].transpose(0, 1).contiguous() for name, x in zip(FIELDS, (q, k, v))}
            save_file(tensors | here, path)
            here.clear()
        return attend(q, k, v, **rest)

    def entered(module, arguments):
        cos, sin = arguments[3]
        here.update(hidden=arguments[0][0].contiguous(), rope_cos=cos[0, :, 0, 0::2].contiguous(), rope_sin=sin[0, :, 0, 1::2].contiguous())

    hook = model.blocks[layer].attn1.register_forward_pre_hook(entered)
    transformer_wan.dispatch_attention_fn = dumping
    oracle.sample(config, model, inputs)
    transformer_wan.dispatch_attention_fn = attend
    hook.remove()


def block_mask(path):
    """The BlockMask of an exported file."""
    t = load_file(path)
    more = {}
    if "token_mask" in t:
        bits, group = t["token_mask"].int(), t["group_of_query"]

        def mask_mod(b, h, q, kv):
            return ((bits[b, h, group[q], kv // 8] >> (kv % 8)) & 1) == 1

        more = dict(full_kv_num_blocks=t["full_kv_num_blocks"], full_kv_indices=t["full_kv_indices"], mask_mod=mask_mod)
    size, lengths = tuple(t["BLOCK_SIZE"].tolist()), tuple(t["seq_lengths"].tolist())
    return BlockMask.from_kv_blocks(t["kv_num_blocks"], t["kv_indices"], BLOCK_SIZE=size, seq_lengths=lengths, **more)


def with_flex(model, inputs, config, mask):
    def flexed(q, k, v, **rest):
        if q.shape[1] != k.shape[1]:
            return attend(q, k, v, **rest)
        return compiled(*(x.transpose(1, 2) for x in (q, k, v)), block_mask=mask).transpose(1, 2)

    transformer_wan.dispatch_attention_fn = flexed
    try:
        return oracle.sample(config, model, inputs)
    finally:
        transformer_wan.dispatch_attention_fn = attend


def blocks_as_lists(exported, path):
    """Blocks of 64 x 64 as a file of key lists."""
    t = load_file(exported)
    num, index = t["kv_num_blocks"][0], t["kv_indices"][0]
    tokens = int(t["seq_lengths"][1])
    keys, offsets = [], [0]
    for h in range(num.shape[0]):
        for row in range(num.shape[1]):
            keys += sorted(index[h, row, : num[h, row]].tolist())
            offsets.append(len(keys))
    tensors = {
        "keys": torch.tensor(keys, dtype=torch.int32),
        "offsets": torch.tensor(offsets, dtype=torch.int64),
        "group_starts": torch.tensor([*range(0, tokens, 64), tokens], dtype=torch.int32),
        "dense_heads": torch.zeros(1, num.shape[0], dtype=torch.uint8),
    }
    cases.save_lists(path, tensors, {"keys_tokens": str(tokens), "granularity": "64"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reel", type=Path, default=REEL)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not options.reel.exists():
        sys.exit(f"flex: {options.reel} is not there; run `make build`")

    def reel(*words):
        run = subprocess.run(list(map(str, (options.reel, *words))), capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"flex: reel {' '.join(map(str, words))} failed:\n{run.stdout}{run.stderr}")
        return run.stdout

    torch.manual_seed(options.seed)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        folder = Path(scratch)
        config = make_fixtures.wan(3, 32, 2)
        cases.save_model(folder, config, cases.random_model(config, options.seed))
        config, model = oracle.load(folder)
        inputs = cases.random_inputs(config, model, SIZE, 8, options.seed)
        save_file(inputs, folder / "in.safetensors")
        qk, lists, exported, answer = (folder / f"{name}.safetensors" for name in ("qk", "lists", "exported", "answer"))
        dump(model, 1, inputs, config, qk)
        print(reel("study", qk, "--grid", "5x4x15"))
        for name, choose, write in (
            ("blocks", ("--block", 64), ("--block", "64x64")),
            ("cover", (), ("--cover",)),
            ("cover", ("--predictor", "true"), ("--cover", "--block", "128x64")),
            ("cover", ("--predictor", "hidden"), ("--cover", "--block", "64x64")),
            ("budget", (), ("--block", "64x64")),
        ):
            chosen = reel("study", "lists", qk, "--keys", 0.3, "--out", lists, *choose)
            said = reel("export", lists, "--to", "flex", "--out", exported, *write)
            if name == "budget":
                blocks_as_lists(exported, lists)
            reel("denoise", folder, "--inputs", folder / "in.safetensors", "--outputs", answer, "--lists", lists)
            expected = load_file(answer)["sample"]
            got = with_flex(model, inputs, config, block_mask(exported))
            dense = oracle.sample(config, model, inputs)
            largest = expected.abs().max()
            difference, sparse = ((got - expected).abs().max() / largest).item(), ((dense - expected).abs().max() / largest).item()
            passed = difference <= ALLOWED
            failed += not passed
            print(f"{'ok  ' if passed else 'FAIL'} {name:6} {' '.join(map(str, (*choose, *write))):40} {difference:.1e} of the largest value (dense attention: {sparse:.1e})")
            print("       " + "\n       ".join(chosen.splitlines()[:2] + said.splitlines()[:3]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
