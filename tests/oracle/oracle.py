"""Models by their folder, and one pass through them in torch: sample, loss and every gradient.

A folder holds config.json and diffusion_pytorch_model.safetensors (or its shards). Classes: WanTransformer3DModel and
LatteTransformer3DModel of diffusers, STDiT3 of stdit3.py, and WanModel, which is Wan under its official names.
"""

import contextlib
import json
import re
from pathlib import Path

import torch
from diffusers import LatteTransformer3DModel, WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanAttnProcessor
from safetensors import safe_open
from safetensors.torch import load_file

from stdit3 import STDiT3

WEIGHTS = "diffusion_pytorch_model.safetensors"

OFFICIAL_NAMES = [  # diffusers, official
    (r"^condition_embedder\.text_embedder\.linear_1\.", "text_embedding.0."),
    (r"^condition_embedder\.text_embedder\.linear_2\.", "text_embedding.2."),
    (r"^condition_embedder\.time_embedder\.linear_1\.", "time_embedding.0."),
    (r"^condition_embedder\.time_embedder\.linear_2\.", "time_embedding.2."),
    (r"^condition_embedder\.time_proj\.", "time_projection.1."),
    (r"^scale_shift_table$", "head.modulation"),
    (r"^proj_out\.", "head.head."),
    (r"\.scale_shift_table$", ".modulation"),
    (r"\.norm2\.", ".norm3."),
    (r"\.ffn\.net\.0\.proj\.", ".ffn.0."),
    (r"\.ffn\.net\.2\.", ".ffn.2."),
    (r"\.attn1\.", ".self_attn."),
    (r"\.attn2\.", ".cross_attn."),
    (r"\.to_out\.0\.", ".o."),
    (r"\.to_([qkv])\.", r".\1."),
]


def file_name(config, name):
    """The name in the weights file of what the torch module calls `name`."""
    if config["_class_name"] == "WanModel":
        for pattern, official in OFFICIAL_NAMES:
            name = re.sub(pattern, official, name)
    return name


def build(config):
    """The module, weights not set."""
    name = config["_class_name"]
    keys = {key: value for key, value in config.items() if not key.startswith("_")}
    if name == "STDiT3":
        return STDiT3(keys)
    if name == "LatteTransformer3DModel":
        return LatteTransformer3DModel(**keys)
    if name == "WanTransformer3DModel":
        return WanTransformer3DModel(**keys)
    if name == "WanModel":
        return WanTransformer3DModel(
            patch_size=keys.get("patch_size", (1, 2, 2)),
            num_attention_heads=keys["num_heads"],
            attention_head_dim=keys["dim"] // keys["num_heads"],
            in_channels=keys["in_dim"],
            out_channels=keys["out_dim"],
            text_dim=keys.get("text_dim", 4096),
            freq_dim=keys["freq_dim"],
            ffn_dim=keys["ffn_dim"],
            num_layers=keys["num_layers"],
            eps=keys["eps"],
        )
    raise SystemExit(f"config.json: _class_name '{name}' is none of WanTransformer3DModel, WanModel, LatteTransformer3DModel, STDiT3")


def load(folder):
    """The config and the module in f32, whatever the file's type is."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    index = folder / (WEIGHTS + ".index.json")
    shards = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else [WEIGHTS]
    weights = {}
    for shard in shards:
        weights.update(load_file(folder / shard))
    model = build(config)
    model.load_state_dict({name: weights[file_name(config, name)].float() for name in model.state_dict()})
    return config, model


def lists_mask(path):
    """A file of key lists (src/reel/lists/key_lists.h) as [batch, heads, queries, keys], true where a query sees a key."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        keys, offsets, starts, dense = (file.get_tensor(n) for n in ("keys", "offsets", "group_starts", "dense_heads"))
    tokens, granularity = int(metadata["keys_tokens"]), int(metadata["granularity"])
    batch, heads = dense.shape
    groups = len(starts) - 1
    mask = torch.zeros(batch, heads, int(starts[-1]), -(-tokens // granularity), dtype=torch.bool)
    for i in range(batch * heads * groups):
        b, h, g = i // (heads * groups), i // groups % heads, i % groups
        mask[b, h, starts[g] : starts[g + 1], keys[offsets[i] : offsets[i + 1]].long()] = True
    mask[dense.bool()] = True
    return mask.repeat_interleave(granularity, dim=3)[..., :tokens]


class MaskedSelfAttention(WanAttnProcessor):
    """Wan's self-attention where a query sees some keys only; one that sees none gets zero, as in reel."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        return super().__call__(attn, hidden_states, encoder_hidden_states, self.mask, rotary_emb)


@contextlib.contextmanager
def float_keeps_f64():
    """diffusers calls .float() around its norms; for a model in f64 that would round to f32."""
    original = torch.Tensor.float
    torch.Tensor.float = lambda self, *rest, **more: self if self.dtype == torch.float64 else original(self, *rest, **more)
    try:
        yield
    finally:
        torch.Tensor.float = original


def sample(config, model, inputs, lists=None):
    """The model's answer; numbers that go through a sine (timestep, fps) stay f32, the rest takes the dtype of the weights."""
    dtype = next(model.parameters()).dtype
    arguments = {name: inputs[name] for name in inputs if name != "target"}
    for name in ("hidden_states", "encoder_hidden_states"):
        arguments[name] = arguments[name].to(dtype)
    if config["_class_name"] == "WanModel":
        text = arguments["encoder_hidden_states"]
        arguments["encoder_hidden_states"] = torch.nn.functional.pad(text, (0, 0, 0, config["text_len"] - text.shape[1]))
    if "x_mask" in inputs and not isinstance(model, STDiT3):  # Wan has a time for each token; that of given frames is 0
        times = inputs["timestep"][:, None] * arguments.pop("x_mask")
        _, _, _, rows, columns = inputs["hidden_states"].shape
        _, ph, pw = model.config.patch_size
        arguments["timestep"] = times.repeat_interleave((rows // ph) * (columns // pw), dim=1)
    if lists is not None:
        for block in model.blocks:
            block.attn1.set_processor(MaskedSelfAttention(lists_mask(lists)))
    with float_keeps_f64():
        return model(**arguments) if isinstance(model, STDiT3) else model(**arguments, return_dict=False)[0]


def evaluate(config, model, inputs, lists=None):
    """sample, loss and grad.<name in the file> of every trained parameter."""
    answer = sample(config, model, inputs, lists)
    loss = (answer - inputs["target"].to(answer.dtype)).square().mean()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(loss, list(trained.values()))
    outputs = {"sample": answer.detach(), "loss": loss.detach()}
    outputs.update({"grad." + file_name(config, name): gradient for name, gradient in zip(trained, gradients)})
    return {name: value.contiguous() for name, value in outputs.items()}
