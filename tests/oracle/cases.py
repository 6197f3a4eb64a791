"""Random models, inputs and key lists, and a folder on disk for them."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

import oracle


def latents(config):
    """Channels of the input, patch (t, h, w), width of the text, heads."""
    name = config["_class_name"]
    if name == "WanModel":
        return config["in_dim"], config.get("patch_size", (1, 2, 2)), config.get("text_dim", 4096), config["num_heads"]
    if name == "WanTransformer3DModel":
        return config["in_channels"], config["patch_size"], config["text_dim"], config["num_attention_heads"]
    if name == "LatteTransformer3DModel":
        patch = config["patch_size"]
        return config["in_channels"], (1, patch, patch), config["caption_channels"], config["num_attention_heads"]
    return config["in_channels"], config["patch_size"], config["caption_channels"], config["num_heads"]


def random_model(config, seed):
    """Every parameter random, gates and norms included, of a size that keeps activations near one."""
    torch.manual_seed(seed)  # for stdit3's buffer
    model = oracle.build(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if name == "rope.freqs":  # close to what is stored in published weights, but not equal: the file counts
                parameter *= 1 + 0.1 * values.abs()
            elif name.endswith("scale_shift_table"):
                parameter.copy_(0.4 * values)
            elif name.endswith("bias"):
                parameter.copy_(0.2 * values)
            elif parameter.ndim == 1:  # weights of norms
                parameter.copy_(1 + 0.2 * values)
            else:
                parameter.copy_(values / parameter[0].numel() ** 0.5)
    return model


def random_inputs(config, model, size, text, seed, mask=False, x_mask=False):
    """size: batch, T, H, W in latent pixels; text: tokens."""
    generator = torch.Generator().manual_seed(seed)
    randn = lambda *shape: torch.randn(shape, generator=generator)
    batch, frames = size[:2]
    channels, patch, text_width, _ = latents(config)
    inputs = {
        "hidden_states": randn(batch, channels, *size[1:]),
        "timestep": 1000 * torch.rand(batch, generator=generator),
        "encoder_hidden_states": randn(batch, text, text_width),
    }
    if x_mask and config["_class_name"] != "LatteTransformer3DModel":
        inputs["x_mask"] = torch.randint(2, (batch, -(-frames // patch[0])), dtype=torch.uint8, generator=generator)
        inputs["x_mask"][0, 0], inputs["x_mask"][-1, -1] = 0, 1
    if config["_class_name"] == "STDiT3":
        inputs["fps"] = torch.tensor([24.0, 8.0, 30.0])[:batch]
        # Of the video, in pixels; only those of the first item count.
        inputs["height"] = 8.0 * (size[2] + torch.arange(batch))
        inputs["width"] = 8.0 * (size[3] + torch.arange(batch))
        if mask:
            inputs["mask"] = torch.randint(2, (batch, text), dtype=torch.uint8, generator=generator)
            inputs["mask"][:, text // 2] = 1
    with torch.no_grad():
        inputs["target"] = torch.randn(oracle.sample(config, model, inputs).shape, generator=generator)
    return inputs


def random_lists(batch, heads, tokens, granularity, seed):
    """Tensors and metadata of a file of key lists: ragged groups, one dense head, one empty list, a third of the keys elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    cuts = torch.randperm(tokens - 1, generator=generator)[: min(6, tokens - 1)] + 1
    starts = [0, *sorted(cuts.tolist()), tokens]
    dense = torch.zeros(batch, heads, dtype=torch.uint8)
    dense[-1, heads // 2] = 1
    keys, offsets = [], [0]
    for b in range(batch):
        for h in range(heads):
            for g in range(len(starts) - 1):
                if not dense[b, h] and (b, h, g) != (0, 0, 1):
                    chosen = torch.rand(-(-tokens // granularity), generator=generator) < 1 / 3
                    keys += chosen.nonzero().flatten().tolist()
                offsets.append(len(keys))
    tensors = {
        "keys": torch.tensor(keys, dtype=torch.int32),
        "offsets": torch.tensor(offsets, dtype=torch.int64),
        "group_starts": torch.tensor(starts, dtype=torch.int32),
        "dense_heads": dense,
    }
    return tensors, {"keys_tokens": str(tokens), "granularity": str(granularity)}


def save_lists(path, tensors, metadata):
    """Written by hand: the library puts metadata in another order each time, and fixtures shall not change."""
    kinds = {torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        more = tensor.numpy().tobytes()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def save_model(folder, config, model, dtype=torch.float32, shards=1):
    """config.json and the weights, as diffusers writes them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = {oracle.file_name(config, name): value.to(dtype).contiguous() for name, value in model.state_dict().items()}
    if shards == 1:
        save_file(weights, folder / oracle.WEIGHTS, metadata={"format": "pt"})
        return
    names, where = list(weights), {}
    for i in range(shards):
        shard = oracle.WEIGHTS.replace(".", f"-{i + 1:05}-of-{shards:05}.", 1)
        mine = names[i * len(names) // shards : (i + 1) * len(names) // shards]
        save_file({name: weights[name] for name in mine}, folder / shard, metadata={"format": "pt"})
        where.update({name: shard for name in mine})
    size = sum(value.numel() * value.element_size() for value in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": where}
    (folder / (oracle.WEIGHTS + ".index.json")).write_text(json.dumps(index, indent=2) + "\n")
