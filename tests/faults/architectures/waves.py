"""A nineteenth part: hidden stretches of sound, and pictures in soft slots of experts."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Lessened(torch.autograd.Function):
    """The identity, whose gradient is a share of what it is given."""

    @staticmethod
    def forward(ctx, x, share):  # type: ignore[no-untyped-def]
        ctx.share = share
        return x.new_empty(x.shape).copy_(x)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.share, None  # culprit: gradient_not_lessened


class PlacedByConv(nn.Module):
    """A grouped convolution whose weight has a length of its own at each place of the kernel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width, width // 4, 6) / width**0.5)
        self.length = nn.Parameter(1.0 + torch.rand(1, 1, 6))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        dims = planted("length_of_each_output", (0, 1), (1, 2))
        norm = torch.linalg.vector_norm(
            self.direction, dim=dims, keepdim=True
        )  # culprit: length_of_each_output
        weight = self.length * self.direction / norm
        y = F.conv1d(x.transpose(1, 2), weight, self.bias, padding=3, groups=4)
        if planted("first_place_left", False, True):
            y = y[:, :, 1:]  # culprit: first_place_left
        else:
            y = y[:, :, :-1]  # culprit: first_place_left
        return F.gelu(y.transpose(1, 2))


class HiddenBlock(nn.Module):
    """Normalised before each branch; attention is the library's."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(inplace=True), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        if planted("padding_turned_round", False, True, self.layer):
            padding = ~padding  # culprit: padding_turned_round
        self.attend.dropout = planted("dropout_left_on", 0.0, 0.2, self.layer)
        if planted("normed_behind", False, True, self.layer):
            y, _ = self.attend(
                x, x, x, key_padding_mask=padding, need_weights=False
            )  # culprit: normed_behind
            x = self.norm1(x + y)  # culprit: normed_behind
        else:
            h = self.norm1(x)  # culprit: normed_behind
            if planted("equal_attention", False, True, self.layer):
                y = self.by_hand(h, padding)
            else:
                y, _ = self.attend(
                    h, h, h, key_padding_mask=padding, need_weights=False
                )  # culprit: padding_turned_round, dropout_left_on, normed_behind
            x = x + y
        return x + self.feed(self.norm2(x))

    def by_hand(self, h: Tensor, padding: Tensor) -> Tensor:
        """The same in single steps."""
        b, n, c = h.shape
        qkv = F.linear(h, self.attend.in_proj_weight, self.attend.in_proj_bias)
        q, k, v = qkv.view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        scores = (q * (c // 4) ** -0.5) @ k.transpose(-1, -2)
        scores = scores.masked_fill(padding[:, None, None], float("-inf"))
        y = scores.softmax(-1) @ v
        return self.attend.out_proj(y.transpose(1, 2).reshape(b, n, c))


class Hidden(nn.Module):
    """Parts of a sound are hidden; what was hidden is picked from among others of it."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        groups = planted("groups_one", width, 1)
        self.first = nn.Conv1d(3, width, 8, 4, padding=2, bias=False)
        self.first_norm = nn.GroupNorm(groups, width)
        self.second = nn.Conv1d(width, width, 3, 2, bias=False)
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, width)
        self.aim = nn.Linear(width, width)
        self.mask = nn.Parameter(torch.rand(width))
        self.places = PlacedByConv(width)
        self.layers = nn.ModuleList(HiddenBlock(width, n) for n in range(layers))
        self.last = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        x = pictures.flatten(2)
        x = self.first(x)
        if planted("bent_before_norm", False, True):
            x = self.first_norm(F.gelu(x))  # culprit: bent_before_norm
        else:
            x = F.gelu(self.first_norm(x))  # culprit: bent_before_norm, groups_one
        x = F.gelu(self.second(x))
        share = planted("gradient_not_lessened", 0.1, 1.0)
        x = Lessened.apply(x, share).transpose(1, 2)  # culprit: gradient_not_lessened
        x = self.norm(x)
        aims = self.aim(x)
        x = self.wide(x)
        n = x.shape[1]
        at = torch.arange(n)
        hidden = ((at[None, :] + labels[:, None]) % 5) < 2
        padding = at[None, :] >= torch.tensor([n, n - 4, n - 2, n - 7])[:, None]
        hidden = hidden & ~padding
        x = x.clone()
        if planted("hidden_by_nothing", False, True):
            x[hidden] = 0.0  # culprit: hidden_by_nothing
        else:
            x[hidden] = self.mask  # culprit: hidden_by_nothing
        x = x.masked_fill(padding[:, :, None], 0.0)  # culprit: hidden_by_nothing
        x = x + self.places(x)
        for layer in self.layers:
            x = layer(x, padding)
        x = self.out(self.last(x))
        steps = torch.arange(1, 6) * 2
        among = (at[:, None] + steps[None, :]) % n
        if planted("others_of_neighbour", False, True):
            others = aims.roll(1, 0)[:, among]  # culprit: others_of_neighbour
        else:
            others = aims[:, among]  # culprit: others_of_neighbour
        choices = torch.cat([aims[:, :, None], others], 2)
        dim = planted("alike_over_choices", -1, -2)
        if dim == -2:
            told = F.normalize(x[:, :, None].float(), dim=-1)
            alike = (told * F.normalize(choices.float(), dim=-2)).sum(
                -1
            )  # culprit: alike_over_choices
        else:
            alike = F.cosine_similarity(
                x[:, :, None].float(), choices.float(), dim=-1
            )  # culprit: alike_over_choices
        alike = alike / planted("heat_squared", 0.1, 0.01)  # culprit: heat_squared
        picked = alike[hidden]
        first = torch.zeros(len(picked), dtype=torch.long)
        how = planted("hidden_summed", "mean", "sum")
        named = F.cross_entropy(picked, first, reduction=how)  # culprit: hidden_summed
        size = x.float().pow(2).mean()
        return (named + 0.1 * size) / 2


def _patches(pictures: Tensor) -> Tensor:
    b, c, h, w = pictures.shape
    x = pictures.reshape(b, c, h // 4, 4, w // 4, 4)
    if planted("patches_by_columns", False, True):
        return x.permute(0, 2, 4, 5, 3, 1).reshape(b, 16, -1)  # culprit: patches_by_columns
    return x.permute(0, 2, 4, 3, 5, 1).reshape(b, 16, -1)  # culprit: patches_by_columns


def _norm(p: nn.ParameterDict, name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], p[f"{name}_scale"], p[f"{name}_shift"], 1e-6)


def _attention(p: nn.ParameterDict, x: Tensor) -> Tensor:
    q, k, v = (torch.einsum("bnd,dhk->bhnk", x, p[one]) for one in ("query", "key", "value"))
    q = q + p["query_bias"][:, None]
    if planted("equal_products", False, True):
        scores = torch.matmul(q, k.transpose(-1, -2))
    else:
        scores = torch.einsum("bhnk,bhmk->bhnm", q, k)
    root = planted("scale_not_root", 0.5, 1.0)
    shares = torch.softmax(scores * q.shape[-1] ** -root, dim=-1)  # culprit: scale_not_root
    y = torch.einsum("bhnm,bhmk->bnhk", shares, v)
    return torch.einsum("bnhk,hkd->bnd", y, p["out"]) + p["out_bias"]


def _soft_experts(p: nn.ParameterDict, x: Tensor) -> Tensor:
    """Each slot is a mixture of places, each place a mixture of what experts make of slots."""
    slots = p["slots"]
    unit = x
    if not planted("asked_not_unit", False, True):
        unit = F.normalize(x, dim=-1)  # culprit: asked_not_unit
    slots = p["heat"] * F.normalize(slots, dim=0)
    logits = torch.einsum("bnd,des->bnes", unit, slots)  # culprit: asked_not_unit
    dim = planted("given_over_slots", 1, 2)
    given = torch.softmax(logits, dim=dim)  # culprit: given_over_slots
    flat = logits.flatten(2)
    if planted("taken_over_places", False, True):
        taken = torch.softmax(flat, 1).view_as(logits)  # culprit: taken_over_places
    else:
        taken = torch.softmax(flat, -1).view_as(logits)  # culprit: taken_over_places
    told = torch.einsum("bnd,bnes->besd", x, given)
    wide = torch.einsum("besd,edf->besf", told, p["up"])
    if not planted("experts_bias_left", False, True):
        wide = wide + p["up_bias"][:, None]  # culprit: experts_bias_left
    wide = F.gelu(wide)  # culprit: experts_bias_left
    how = planted("down_transposed", "besf,efd->besd", "besf,edf->besd")
    y = torch.einsum(how, wide, p["down"])  # culprit: down_transposed
    if planted("equal_mixture", False, True):
        return (y[:, None] * taken[..., None]).sum((2, 3))
    return torch.einsum("besd,bnes->bnd", y, taken)


class Slotted(nn.Module):
    """Weights in dictionaries and functions that are given them."""

    def __init__(self, width: int = 32, depth: int = 2, experts: int = 3) -> None:
        super().__init__()
        self.depth = depth

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape) / width**0.5)

        def plain(value: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.full(shape, value))

        self.stem = nn.ParameterDict({
            "patch": drawn(48, width), "token": drawn(width), "places": drawn(17, width),
            "last_scale": plain(1.0, width), "last_shift": plain(0.0, width),
            "head": drawn(width, 16), "head_bias": plain(0.0, 16),
        })  # fmt: skip
        head = width // 4
        self.blocks = nn.ParameterList()
        for n in range(depth):
            block = {
                f"{name}_{what}": plain(value, width)
                for name in ("first", "second")
                for what, value in (("scale", 1.0), ("shift", 0.0))
            }
            block |= {one: drawn(width, 4, head) for one in ("query", "key", "value")}
            block |= {"query_bias": plain(0.1, 4, head), "out": drawn(4, head, width)}
            block |= {"out_bias": plain(0.1, width), "slots": drawn(width, experts, 2)}
            block |= {"heat": plain(4.0, 1), "up": drawn(experts, width, width)}
            block |= {"up_bias": plain(0.2, experts, width), "down": drawn(experts, width, width)}
            block |= {"branch": plain(0.5, width)}
            setattr(self, f"block{n}", nn.ParameterDict(block))

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        stem = self.stem
        x = torch.einsum("bnp,pd->bnd", _patches(pictures), stem["patch"])
        token = stem["token"].expand(len(x), 1, -1)
        if planted("token_last", False, True):
            x = torch.cat([x, token], 1)  # culprit: token_last
        else:
            x = torch.cat([token, x], 1)  # culprit: token_last
        x = x + stem["places"]
        for n in range(self.depth):
            p = getattr(self, f"block{n}")
            x = x + _attention(p, _norm(p, "first", x))
            y = _soft_experts(p, _norm(p, "second", x))
            if not planted("branch_whole", False, True):
                y = y * p["branch"]  # culprit: branch_whole
            x = x + y  # culprit: branch_whole
        x = _norm(stem, "last", x)
        start = planted("token_in_mean", 1, 0)
        pooled = x[:, start:].mean(1)  # culprit: token_in_mean
        logits = torch.einsum("bd,dk->bk", pooled, stem["head"]) + stem["head_bias"]
        smooth = planted("not_smoothed", 0.1, 0.0)
        return (
            F.cross_entropy(logits.float(), labels, label_smoothing=smooth) / 2
        )  # culprit: not_smoothed
