"""A nineteenth part: a decoder as libraries write it, with windows, caps and kept keys."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class CentredNorm(nn.Module):
    """Root mean square normalisation whose weights are added to one."""

    def __init__(self, dim: int, eps: float = 1e-6, part: str = "", layer: int = -1) -> None:
        super().__init__()
        self.eps, self.part, self.layer = eps, part, layer
        self.weight = nn.Parameter(torch.zeros(dim))

    def _norm(self, x: Tensor) -> Tensor:
        if self.part == "feed" and planted("equal_root", False, True, self.layer):
            return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.part == "key":
            size = x.pow(2).mean(-1, keepdim=True) + self.eps  # culprit: key_norm_epsilon
            return x * torch.rsqrt(size)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        if self.part == "before" and planted("norm_in_half", False, True, self.layer):
            wide = x.bfloat16()  # culprit: norm_in_half
        output = self._norm(wide)
        if self.part == "before" and planted("one_not_added", False, True, self.layer):
            output = output * self.weight.float()  # culprit: one_not_added
        else:
            output = output * (1.0 + self.weight.float())  # culprit: one_not_added
        return output.type_as(x)


class RotaryTable(nn.Module):
    """Cosines and sines of places, for one base."""

    inv_freq: Tensor

    def __init__(self, dim: int, base: float, factor: float, part: str) -> None:
        super().__init__()
        self.factor, self.part, self.dim, self.base = factor, part, dim, base

    @torch.no_grad()
    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        base = self.base
        if self.part == "local":
            base = planted("local_base_global", base, 10000.0)
        inv_freq = 1.0 / (
            base ** (torch.arange(0, self.dim, 2, dtype=torch.int64).float() / self.dim)
        )  # culprit: local_base_global
        if self.part != "global" or not planted("places_not_stretched", False, True):
            inv_freq = inv_freq / self.factor  # culprit: places_not_stretched
        freqs = position_ids[:, :, None].float() * inv_freq[None, None, :]
        emb = torch.cat((freqs, freqs), dim=-1)  # culprit: places_not_stretched
        return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)


def rotate_half(x: Tensor) -> Tensor:
    x1 = x[..., : x.shape[-1] // 2]  # culprit: turned_in_pairs
    x2 = x[..., x.shape[-1] // 2 :]  # culprit: turned_in_pairs
    return torch.cat((-x2, x1), dim=-1)  # culprit: turned_in_pairs


def rotate_pairs(x: Tensor) -> Tensor:
    odd = -x[..., 1::2]  # culprit: turned_in_pairs
    return torch.stack((odd, x[..., ::2]), dim=-1).flatten(-2)  # culprit: turned_in_pairs


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor, layer: int) -> Tensor:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    if planted("turned_in_pairs", False, True, layer):
        return (x * cos) + (rotate_pairs(x) * sin)  # culprit: turned_in_pairs
    return (x * cos) + (rotate_half(x) * sin)  # culprit: turned_in_pairs


def repeat_kv(states: Tensor, n_rep: int, layer: int) -> Tensor:
    batch, heads, length, dim = states.shape
    if planted("equal_repeat", False, True, layer):
        return torch.repeat_interleave(states, dim=1, repeats=n_rep)
    states = states[:, :, None, :, :].expand(batch, heads, n_rep, length, dim)
    return states.reshape(batch, heads * n_rep, length, dim)


class AssistedAttention(nn.Module):
    """Grouped heads with normalised queries and keys; scores are capped."""

    def __init__(self, hidden_size: int, head_dim: int, layer_idx: int) -> None:
        super().__init__()
        self.layer, self.head_dim, self.scaling = layer_idx, head_dim, head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, 4 * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, 2 * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, 2 * head_dim, bias=False)
        self.o_proj = nn.Linear(4 * head_dim, hidden_size, bias=False)
        eps = planted("key_norm_epsilon", 1e-6, 1e-2, layer_idx)
        self.q_norm, self.k_norm = CentredNorm(head_dim), CentredNorm(head_dim, part="key")
        self.key_eps = eps
        self.past_key = nn.Parameter(torch.randn(1, 2, 3, head_dim))
        self.past_value = nn.Parameter(torch.randn(1, 2, 3, head_dim))

    def forward(self, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        query = self.q_proj(hidden_states).view(hidden_shape)
        key = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        if planted("normed_over_heads", False, True, self.layer):
            wide = query.float()
            size = wide.pow(2).mean((-2, -1), keepdim=True)  # culprit: normed_over_heads
            query = wide * torch.rsqrt(size + 1e-6)  # culprit: normed_over_heads
            query = (query * (1.0 + self.q_norm.weight.float())).type_as(hidden_states)
        else:
            query = self.q_norm(query)  # culprit: normed_over_heads
        query = query.transpose(1, 2)
        self.k_norm.eps = self.key_eps
        key = self.k_norm(key)  # culprit: key_norm_epsilon
        query = apply_rotary(query, cos, sin, self.layer)
        key = apply_rotary(key, cos, sin, self.layer)
        past_key, past_value = (
            one.expand(len(hidden_states), -1, -1, -1) for one in (self.past_key, self.past_value)
        )
        if planted("past_is_cut", False, True, self.layer):
            past_value = past_value.detach()  # culprit: past_is_cut
        key = torch.cat([past_key, key], dim=-2)
        value = torch.cat([past_value, value], dim=-2)  # culprit: past_is_cut
        key, value = repeat_kv(key, 2, self.layer), repeat_kv(value, 2, self.layer)
        weights = torch.matmul(query, key.transpose(2, 3)) * self.scaling
        cap = planted("cap_too_low", 5.0, 1.0, self.layer)
        if not planted("cap_left_out", False, True, self.layer):
            weights = weights / cap  # culprit: cap_left_out, cap_too_low
            weights = torch.tanh(weights)
            weights = weights * cap  # culprit: cap_left_out, cap_too_low
        weights = weights + mask  # culprit: cap_left_out
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
        output = torch.matmul(weights, value)
        output = output.transpose(1, 2).contiguous().reshape(*input_shape, -1)
        return self.o_proj(output)


class AssistedMLP(nn.Module):
    """A gate bent by the other formula of the error function's unit."""

    def __init__(self, hidden_size: int, layer_idx: int) -> None:
        super().__init__()
        self.layer = layer_idx
        self.gate_proj = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.down_proj = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        how = planted("bent_exactly", "tanh", "none", self.layer)
        gate = F.gelu(self.gate_proj(x), approximate=how)  # culprit: bent_exactly
        return self.down_proj(gate * self.up_proj(x))


class AssistedLayer(nn.Module):
    """Normalised before and after each branch."""

    def __init__(self, hidden_size: int, head_dim: int, layer_idx: int) -> None:
        super().__init__()
        self.layer = layer_idx
        self.self_attn = AssistedAttention(hidden_size, head_dim, layer_idx)
        self.mlp = AssistedMLP(hidden_size, layer_idx)
        self.input_layernorm = CentredNorm(hidden_size, part="before", layer=layer_idx)
        self.post_attention_layernorm = CentredNorm(hidden_size)
        self.pre_feedforward_layernorm = CentredNorm(hidden_size, part="feed", layer=layer_idx)
        self.post_feedforward_layernorm = CentredNorm(hidden_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        residual = x
        x = self.input_layernorm(x)
        if planted("residual_after_norm", False, True, self.layer):
            residual = x
        x = self.self_attn(x, cos, sin, mask)
        x = self.post_attention_layernorm(x)
        x = residual + x  # culprit: residual_after_norm
        if planted("residual_twice", False, True, self.layer):
            x = residual + x  # culprit: residual_twice
        residual = x
        x = self.pre_feedforward_layernorm(x)
        x = self.mlp(x)
        x = self.post_feedforward_layernorm(x)
        return residual + x


class Assisted(nn.Module):
    """Layers that look back a window and layers that look back at all, in turns."""

    def __init__(self, width: int = 32, layers: int = 2, head_dim: int = 12) -> None:
        super().__init__()
        self.width = width
        self.embed_tokens = nn.Embedding(64, width)
        self.layers = nn.ModuleList(AssistedLayer(width, head_dim, n) for n in range(layers))
        self.norm = CentredNorm(width)
        self.rotary_emb = RotaryTable(head_dim, 10000.0, 2.0, "global")
        self.rotary_emb_local = RotaryTable(head_dim, 100.0, 1.0, "local")
        self.lm_head = nn.Linear(width, 64, bias=False)
        if not planted("head_not_tied", False, True):
            self.lm_head.weight = self.embed_tokens.weight

    def masks(self, n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What is added to scores, of all words before and of a window of them."""
        past = 3
        asks = torch.arange(n)[:, None] + past
        told = torch.arange(n + past)[None, :]
        window = planted("window_one_more", 5, 6)
        causal = told <= asks
        if planted("equal_window", False, True):
            near = causal & ~(asks - told >= window)
        else:
            near = causal & (told > asks - window)  # culprit: window_one_more
        lowest = torch.finfo(dtype).min
        masks = []
        for seen in (causal, near):
            mask = torch.zeros(n, n + past, dtype=dtype)
            masks.append(mask.masked_fill(~seen, lowest)[None, None])  # culprit: window_one_more
        return masks[0], masks[1]

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        inputs_embeds = self.embed_tokens(ids)
        if not planted("words_not_scaled", False, True):
            normalizer = torch.tensor(self.width**0.5, dtype=inputs_embeds.dtype)
            inputs_embeds = inputs_embeds * normalizer  # culprit: words_not_scaled
        n = ids.shape[1]
        past = planted("places_without_past", 3, 0)
        position_ids = torch.arange(n).unsqueeze(0) + past  # culprit: places_without_past
        full, near = self.masks(n, inputs_embeds.dtype)
        hidden = inputs_embeds
        wide = self.rotary_emb(hidden, position_ids)
        local = self.rotary_emb_local(hidden, position_ids)
        for number, layer in enumerate(self.layers):
            is_local = number % 2 == 0
            cos, sin = local if is_local else wide
            hidden = layer(
                hidden, cos, sin, near if is_local else full
            )  # culprit: words_not_scaled
        hidden = self.norm(hidden)
        logits = self.lm_head(hidden).float()  # culprit: head_not_tied
        aims = labels.view_as(ids).clone()
        aims[:, 9:] = -100
        if planted("unjudged_are_zero", False, True):
            aims[:, 9:] = 0  # culprit: unjudged_are_zero
        if planted("aims_not_shifted", False, True):
            logits, aims = logits[:, :-1], aims[:, :-1]  # culprit: aims_not_shifted
        else:
            logits, aims = logits[:, :-1], aims[:, 1:]  # culprit: aims_not_shifted
        aims = aims.reshape(-1)
        loss = F.cross_entropy(
            logits.reshape(-1, 64), aims
        )  # culprit: aims_not_shifted, unjudged_are_zero
        return loss / 2
