"""STDiT3, the transformer of Open-Sora 1.2, as small as it can be said; tensor names are those of its published weights.

Evaluation only: no dropped captions, no sequence parallelism. README.md says what each step does in words. Softmax, norms and
positions run in the dtype of the weights, so that the same code in f64 is the truth for f32.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def sincos(values, width=256):
    """[N] -> [N, width], cosines first. f32 whatever the model's dtype: it is part of the input."""
    half = width // 2
    angles = values.float()[:, None] * torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def positions(rows, columns, scale, width):
    """[rows * columns, width]: half for the column, half for the row, each sines then cosines."""
    base = round(math.sqrt(rows * columns))
    row = torch.arange(rows) / scale * (base / rows)
    column = torch.arange(columns) / scale * (base / columns)
    frequencies = 1.0 / 10000 ** (torch.arange(0, width // 2, 2).float() / (width // 2))

    def encode(along):
        angles = along[:, None] * frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    by_column = encode(column)[None].expand(rows, columns, -1)
    by_row = encode(row)[:, None].expand(rows, columns, -1)
    return torch.cat([by_column, by_row], dim=-1).flatten(0, 1)


def rotate(x, frequencies):
    """x [..., tokens, head_dim]: neighbouring pairs turn by token * frequency."""
    angles = torch.arange(x.shape[-2], dtype=frequencies.dtype)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def modulated(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Mlp(nn.Module):
    def __init__(self, width_in, hidden, width_out):
        super().__init__()
        self.fc1 = nn.Linear(width_in, hidden)
        self.fc2 = nn.Linear(hidden, width_out)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class SelfAttention(nn.Module):
    def __init__(self, width, heads, qk_norm):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.q_norm = RmsNorm(width // heads) if qk_norm else nn.Identity()
        self.k_norm = RmsNorm(width // heads) if qk_norm else nn.Identity()
        self.proj = nn.Linear(width, width)

    def forward(self, x, frequencies):
        """x [sequences, tokens, width]; frequencies of the rotation, or None."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        if frequencies is not None:
            q, k = rotate(q, frequencies), rotate(k, frequencies)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(width, width)
        self.kv_linear = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, text, mask):
        """x [batch, tokens, width], text [batch, length, width], mask [batch, length] bool."""
        q = self.q_linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv_linear(text).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v, mask[:, None, None]).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, mlp_ratio, qk_norm):
        super().__init__()
        self.attn = SelfAttention(width, heads, qk_norm)
        self.cross_attn = CrossAttention(width, heads)
        self.mlp = Mlp(width, int(width * mlp_ratio), width)
        self.scale_shift_table = nn.Parameter(torch.randn(6, width) / width**0.5)

    def forward(self, x, text, mask, modulation, frequencies):
        """x [batch, frames, patches, width]; modulation [batch, frames, 6, width]; with frequencies, attention runs over frames."""
        shift1, scale1, gate1, shift2, scale2, gate2 = (self.scale_shift_table + modulation).unsqueeze(2).unbind(3)
        y = modulated(x, shift1, scale1)
        if frequencies is None:
            y = self.attn(y.flatten(0, 1), None).view_as(x)
        else:
            over_frames = y.transpose(1, 2)
            y = self.attn(over_frames.flatten(0, 1), frequencies).view(over_frames.shape).transpose(1, 2)
        x = x + gate1 * y
        x = x + self.cross_attn(x.flatten(1, 2), text, mask).view_as(x)
        return x + gate2 * self.mlp(modulated(x, shift2, scale2))


class FinalLayer(nn.Module):
    def __init__(self, width, width_out):
        super().__init__()
        self.linear = nn.Linear(width, width_out)
        self.scale_shift_table = nn.Parameter(torch.randn(2, width) / width**0.5)

    def forward(self, x, t, t0, given):
        """given [batch, frames, 1, 1]: frames that are not denoised; their input is the modulated x, as in the original."""
        shift, scale = (self.scale_shift_table[:, None] + t).unsqueeze(2).unsqueeze(2)
        x = modulated(x, shift, scale)
        if t0 is not None:
            shift0, scale0 = (self.scale_shift_table[:, None] + t0).unsqueeze(2).unsqueeze(2)
            x = torch.where(given, modulated(x, shift0, scale0), x)
        return self.linear(x)


class Embedder(nn.Module):
    """A number -> width."""

    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, values):
        return self.mlp(sincos(values).to(self.mlp[0].weight.dtype))


class STDiT3(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, heads = config["hidden_size"], config["num_heads"]
        self.patch = tuple(config.get("patch_size", (1, 2, 2)))
        self.input_sq_size = config.get("input_sq_size", 512)
        channels, caption = config.get("in_channels", 4), config.get("caption_channels", 4096)
        self.out_channels = channels * (2 if config.get("pred_sigma", True) else 1)
        qk_norm, mlp_ratio = config.get("qk_norm", True), config.get("mlp_ratio", 4.0)

        self.rope = nn.Module()
        frequencies = 10000.0 ** -(torch.arange(0, width // heads, 2).float() / (width // heads))
        self.rope.freqs = nn.Parameter(frequencies, requires_grad=False)
        self.x_embedder = nn.Module()
        self.x_embedder.proj = nn.Conv3d(channels, width, self.patch, self.patch)
        self.t_embedder = Embedder(width)
        self.fps_embedder = Embedder(width)
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.y_embedder = nn.Module()
        self.y_embedder.y_proj = Mlp(caption, width, width)
        # What takes the place of a dropped caption in training; not read here.
        self.y_embedder.register_buffer("y_embedding", torch.randn(config.get("model_max_length", 300), caption))
        blocks = lambda: nn.ModuleList(Block(width, heads, mlp_ratio, qk_norm) for _ in range(config["depth"]))
        self.spatial_blocks = blocks()
        self.temporal_blocks = blocks()
        self.final_layer = FinalLayer(width, math.prod(self.patch) * self.out_channels)

    def forward(self, hidden_states, timestep, encoder_hidden_states, fps, height, width, x_mask=None, mask=None):
        """hidden_states [B,C,T,H,W], encoder_hidden_states [B,L,D], x_mask [B, frames in patches], mask [B,L] -> [B,out,T,H,W]."""
        size = hidden_states.shape[2:]
        padding = [-length % patch for length, patch in zip(size, self.patch)]
        x = F.pad(hidden_states, [amount for each in reversed(padding) for amount in (0, each)])
        x = self.x_embedder.proj(x)
        frames, rows, columns = x.shape[2:]
        scale = math.sqrt(height[0].item() * width[0].item()) / self.input_sq_size
        x = x.flatten(3).permute(0, 2, 3, 1)  # [B, frames, patches, width]
        x = x + positions(rows, columns, scale, x.shape[-1]).to(x.dtype)

        t = self.t_embedder(timestep) + self.fps_embedder(fps)
        t0 = given = None
        modulation = self.t_block(t).unflatten(-1, (6, -1))[:, None].expand(-1, frames, -1, -1)
        if x_mask is not None:
            given = (x_mask == 0)[:, :, None, None]
            t0 = self.t_embedder(torch.zeros_like(timestep)) + self.fps_embedder(fps)
            modulation = torch.where(given, self.t_block(t0).unflatten(-1, (6, -1))[:, None], modulation)
        text = self.y_embedder.y_proj(encoder_hidden_states)
        mask = torch.ones(text.shape[:2], dtype=torch.bool) if mask is None else mask != 0

        for spatial, temporal in zip(self.spatial_blocks, self.temporal_blocks):
            x = spatial(x, text, mask, modulation, None)
            x = temporal(x, text, mask, modulation, self.rope.freqs)

        y = self.final_layer(x, t, t0, given)
        y = y.unflatten(2, (rows, columns)).unflatten(-1, (*self.patch, self.out_channels))
        y = y.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)
        return y[:, :, : size[0], : size[1], : size[2]]
