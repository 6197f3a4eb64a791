#!/usr/bin/env python3
"""Writes tests/oracle/fixtures anew: see README.md. The same seeds give the same weights and inputs."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

import cases
import oracle

FIXTURES = Path(__file__).resolve().parent / "fixtures"


def wan(heads, head_dim, layers, **more):
    return {
        "_class_name": "WanTransformer3DModel",
        "patch_size": [1, 2, 2],
        "num_attention_heads": heads,
        "attention_head_dim": head_dim,
        "in_channels": 4,
        "out_channels": 4,
        "text_dim": 12,
        "freq_dim": 16,
        "ffn_dim": 24,
        "num_layers": layers,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "eps": 1e-6,
        "image_dim": None,
        "added_kv_proj_dim": None,
        "rope_max_seq_len": 1024,
        "pos_embed_seq_len": None,
        **more,
    }


def wan_official(heads, head_dim, layers):
    return {
        "_class_name": "WanModel",
        "model_type": "t2v",
        "dim": heads * head_dim,
        "ffn_dim": 40,
        "freq_dim": 16,
        "in_dim": 4,
        "out_dim": 4,
        "num_heads": heads,
        "num_layers": layers,
        "text_len": 7,
        "text_dim": 12,
        "eps": 1e-6,
    }


def latte(heads, head_dim, layers, **more):
    return {
        "_class_name": "LatteTransformer3DModel",
        "num_attention_heads": heads,
        "attention_head_dim": head_dim,
        "in_channels": 4,
        "out_channels": 8,
        "num_layers": layers,
        "dropout": 0.0,
        "cross_attention_dim": heads * head_dim,
        "attention_bias": True,
        "sample_size": 8,
        "patch_size": 2,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 1000,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "caption_channels": 12,
        "video_length": 3,
        **more,
    }


def stdit3(heads, head_dim, depth, **more):
    return {
        "_class_name": "STDiT3",
        "input_sq_size": 512,
        "in_channels": 4,
        "patch_size": [1, 2, 2],
        "hidden_size": heads * head_dim,
        "depth": depth,
        "num_heads": heads,
        "mlp_ratio": 2.0,
        "class_dropout_prob": 0.1,
        "pred_sigma": True,
        "caption_channels": 12,
        "model_max_length": 8,
        "qk_norm": True,
        **more,
    }


# Weights and gradients take 8 bytes per parameter and all cases together shall stay below 2 MB: hence narrow models.
CASES = {
    "wan-head16": dict(config=wan(2, 16, 1), size=(2, 3, 6, 10), text=5),
    "wan-head24-shards": dict(config=wan(1, 24, 1, cross_attn_norm=False, out_channels=6), size=(2, 5, 2, 6), text=3, shards=3),
    "wan-head40-bf16": dict(config=wan(1, 40, 1), size=(1, 2, 10, 6), text=9, dtype=torch.bfloat16),
    "wan-patch": dict(config=wan(3, 8, 1, patch_size=[2, 1, 3], eps=1e-3), size=(3, 6, 3, 9), text=1),
    "wan-official": dict(config=wan_official(2, 8, 2), size=(2, 3, 4, 6), text=7),
    "wan-lists": dict(config=wan(2, 8, 2), size=(2, 3, 6, 10), text=5, lists=True),
    # The first has its inputs' size, the second another one: positions are stretched. Sizes from 128 on are zoomed.
    "latte-square": dict(config=latte(2, 8, 2), size=(2, 3, 8, 8), text=5),
    "latte-zoom": dict(config=latte(1, 16, 1, sample_size=128, video_length=5, norm_eps=1e-3), size=(2, 5, 4, 10), text=3),
    "latte-frame": dict(config=latte(1, 16, 1, out_channels=4, patch_size=1, video_length=4), size=(2, 1, 3, 5), text=2),
    "stdit3": dict(config=stdit3(2, 8, 1), size=(2, 3, 5, 7), text=6),
    "stdit3-masks": dict(config=stdit3(1, 16, 1, input_sq_size=64), size=(3, 3, 5, 4), text=7, mask=True, x_mask=True),
    "stdit3-patch": dict(
        config=stdit3(1, 16, 1, patch_size=[2, 3, 1], pred_sigma=False, qk_norm=False), size=(2, 5, 5, 3), text=8, x_mask=True
    ),
    "wan-given": dict(config=wan(2, 8, 1, patch_size=[2, 2, 2]), size=(2, 6, 4, 6), text=3, x_mask=True),
}


def write(name, seed, config, size, text, dtype=torch.float32, shards=1, lists=False, **masks):
    folder = FIXTURES / name
    cases.save_model(folder, config, cases.random_model(config, seed), dtype, shards)
    config, model = oracle.load(folder)
    inputs = cases.random_inputs(config, model, size, text, seed + 1, **masks)
    save_file(inputs, folder / "in.safetensors")
    path = None
    if lists:
        _, patch, _, heads = cases.latents(config)
        tokens = (size[1] // patch[0]) * (size[2] // patch[1]) * (size[3] // patch[2])
        tensors, metadata = cases.random_lists(size[0], heads, tokens, 1, seed + 2)
        path = folder / "lists.safetensors"
        cases.save_lists(path, tensors, metadata)
    outputs = oracle.evaluate(config, model, inputs, path)
    broken = [each for each, value in outputs.items() if not value.isfinite().all()]
    if broken:
        raise SystemExit(f"{name}: not finite: {broken}")
    save_file(outputs, folder / "expected.safetensors")
    bytes_written = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:24} loss {outputs['loss']:.4f}  {len(outputs) - 2} gradients  {bytes_written / 1024:.0f} KiB")
    return bytes_written


def main():
    shutil.rmtree(FIXTURES, ignore_errors=True)
    print(f"{sum(write(name, 100 * i, **case) for i, (name, case) in enumerate(CASES.items())) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
