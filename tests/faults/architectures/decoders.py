"""Decoders: a llama, a GPT-2 and a mixture of experts."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class RMSNorm(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        eps = planted("rms_epsilon", 1e-6, 1e-2, self.layer)
        wide = x.float()
        variance = wide.pow(2).mean(-1, keepdim=True)
        variance = variance + eps  # culprit: rms_epsilon
        scale = torch.rsqrt(variance)
        return self.weight * (wide * scale).to(x.dtype)


def rotate(x: Tensor, layer: int) -> Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    if planted("rotary_sign", False, True, layer):
        return torch.cat((second, first), dim=-1)  # culprit: rotary_sign
    return torch.cat((-second, first), dim=-1)  # culprit: rotary_sign


class LlamaAttention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, layer: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size, self.layer = heads, groups, width // heads, layer
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, groups * self.size, bias=False)
        self.v_proj = nn.Linear(width, groups * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        q = q * cos + rotate(q, self.layer) * sin
        k = k * cos + rotate(k, self.layer) * sin
        repeat = self.heads // self.groups
        if planted("head_order", False, True, self.layer):
            k = k.repeat(1, repeat, 1, 1)  # culprit: head_order
        else:
            k = k.repeat_interleave(repeat, dim=1)  # culprit: head_order
        v = v.repeat_interleave(repeat, dim=1)
        scale = planted("attention_scale", 1.0, 1.5, self.layer) / math.sqrt(self.size)
        scores = torch.matmul(q, k.transpose(2, 3))
        scores = scores * scale  # culprit: attention_scale
        if not planted("mask_missing", False, True, self.layer):
            scores = scores + mask  # culprit: mask_missing
        kind = planted("softmax_half", torch.float32, torch.bfloat16, self.layer)
        weights = F.softmax(scores, dim=-1, dtype=kind)  # culprit: softmax_half
        weights = weights.to(q.dtype)
        if planted("dead_gradient", False, True, self.layer):
            weights = weights.detach()  # culprit: dead_gradient
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, width)
        return self.o_proj(mixed)


class WrongGate(torch.autograd.Function):
    """SwiGLU's product; its gradient can be made wrong."""

    @staticmethod
    def forward(ctx, gate, up):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        gate, up = ctx.saved_tensors
        sigmoid = torch.sigmoid(gate)
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        wrong = planted("custom_gradient", False, True)
        of_gate = grad * up * (sigmoid if wrong else slope)  # culprit: custom_gradient
        return of_gate, grad * F.silu(gate)


class LlamaMLP(nn.Module):
    def __init__(self, width: int, inner: int, layer: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        if planted("gate_and_up_swapped", False, True, self.layer):
            gate, up = up, gate
        if self.layer == 0:
            active = WrongGate.apply(gate, up)  # culprit: custom_gradient
            return self.down_proj(active)
        slope: Any = planted("activation", F.silu, F.gelu, self.layer)
        active = slope(gate)  # culprit: activation, gate_and_up_swapped
        return self.down_proj(active * up)


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int, layer: int) -> None:
        super().__init__()
        self.input_norm = RMSNorm(width, layer)
        self.attention = LlamaAttention(width, heads, groups, layer)
        self.post_norm = RMSNorm(width, layer)
        self.mlp = LlamaMLP(width, inner, layer)
        self.layer = layer

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.input_norm(x), cos, sin, mask)
        grown = self.mlp(self.post_norm(x))
        if planted("residual_missing", False, True, self.layer):
            return grown
        return x + grown  # culprit: residual_missing


class Llama(nn.Module):
    def __init__(
        self, width: int = 64, layers: int = 2, heads: int = 4, groups: int = 2, words: int = 96
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            LlamaLayer(width, heads, groups, 2 * width, layer) for layer in range(layers)
        )
        self.norm = RMSNorm(width, layers)
        self.head = nn.Linear(width, words, bias=False)
        self.size = width // heads

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        kind = self.head.weight.dtype
        base = planted("rotary_base", 10000.0, 500.0)
        steps = torch.arange(0, self.size, 2).float() / self.size
        frequency = 1.0 / base**steps  # culprit: rotary_base
        angles = torch.outer(torch.arange(length).float(), frequency)
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(kind), angles.sin().to(kind)
        shift = planted("mask_shifted", 1, 2)
        mask = torch.full((length, length), float("-inf"))
        mask = mask.triu(shift)  # culprit: mask_shifted
        mask = mask.to(kind)
        x = self.embed(tokens)
        x = x * planted("embedding_scale", 1.0, 1.1)  # culprit: embedding_scale
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(self.norm(x))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        eps = planted("norm_epsilon", 1e-5, 1e-3, layer)
        self.ln_1 = nn.LayerNorm(width, eps=eps)
        self.ln_2 = nn.LayerNorm(width)
        for norm in (self.ln_1, self.ln_2):
            nn.init.normal_(norm.weight, 1.0, 0.1)
            nn.init.normal_(norm.bias, 0.0, 0.1)
        self.c_attn = nn.Parameter(torch.randn(width, 3 * width) / math.sqrt(width))
        self.b_attn = nn.Parameter(0.3 * torch.randn(3 * width))
        self.c_proj = nn.Linear(width, width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_out = nn.Linear(4 * width, width)
        self.heads, self.layer = heads, layer

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        bias = self.b_attn
        if planted("bias_missing", False, True, self.layer):
            fused = x.reshape(-1, width) @ self.c_attn  # culprit: bias_missing
        else:
            fused = torch.addmm(bias, x.reshape(-1, width), self.c_attn)  # culprit: bias_missing
        q, k, v = fused.view(batch, length, 3 * width).split(width, dim=2)
        if planted("keys_and_values_swapped", False, True, self.layer):
            k, v = v, k
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (
            one.view(shape).transpose(1, 2) for one in (q, k, v)
        )  # culprit: keys_and_values_swapped
        causal = not planted("not_causal", False, True, self.layer)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # culprit: not_causal
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.ln_1(x))  # culprit: norm_epsilon
        inner = self.c_fc(self.ln_2(x))
        variant = planted("gelu_variant", "tanh", "none", self.layer)
        inner = F.gelu(inner, approximate=variant)  # culprit: gelu_variant
        if planted("half_overflow", False, True, self.layer):
            inner = (inner * 70000).half().to(x.dtype) / 70000  # culprit: half_overflow
        if planted("not_a_number", False, True, self.layer):
            inner = torch.sqrt(inner)  # culprit: not_a_number
        return x + self.c_out(inner)


class Gpt2(nn.Module):
    def __init__(self, width: int = 48, layers: int = 3, heads: int = 3, words: int = 80) -> None:
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(64, width)
        self.h = nn.ModuleList(GptBlock(width, heads, layer) for layer in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        offset = planted("position_offset", 0, 1)
        places = torch.arange(tokens.shape[1]) + offset  # culprit: position_offset
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


class Expert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(x)))


class MoeBlock(nn.Module):
    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = nn.Linear(width, width)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.tanh(self.mixer(self.norm(x))).cumsum(1) / 3
        flat = x.reshape(-1, x.shape[-1])
        heat = planted("router_temperature", 1.0, 2.0, self.layer)
        logits = self.router(flat)
        logits = logits / heat  # culprit: router_temperature
        chances = F.softmax(logits, dim=-1)
        weight, chosen = torch.topk(chances, 2, dim=-1)
        if not planted("router_normalisation", False, True, self.layer):
            weight = weight / weight.sum(-1, keepdim=True)  # culprit: router_normalisation
        result = torch.zeros_like(flat)
        order = list(range(len(self.experts)))
        if planted("experts_swapped", False, True, self.layer):
            order[0], order[1] = order[1], order[0]
        for number, own in enumerate(order):
            rows, slot = torch.where(chosen == number)
            share = weight[rows, slot, None]
            grown = self.experts[own](flat[rows])  # culprit: experts_swapped
            result.index_add_(0, rows, grown * share)
        return x + result.view_as(x)


class Moe(nn.Module):
    def __init__(self, width: int = 40, layers: int = 2, experts: int = 4, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(MoeBlock(width, experts, layer) for layer in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
