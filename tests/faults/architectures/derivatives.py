"""A fifteenth part: layers that bring derivatives of their own, forces, penalties on gradients."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, call-overload"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from tests.faults.planting import planted

Tensor = torch.Tensor


class OwnNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, layer):  # type: ignore[no-untyped-def]
        eps = planted("own_epsilon", 1e-5, 1e-2, layer)
        rate = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)  # culprit: own_epsilon
        ctx.save_for_backward(x, weight, rate)
        ctx.layer = layer
        return (x.float() * rate).to(x.dtype) * weight

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight, rate = ctx.saved_tensors
        h = x.float() * rate
        g = (grad * weight).float()
        along = (g * h).mean(-1, keepdim=True)
        if planted("projection_missing", False, True, ctx.layer):
            back = rate * g  # culprit: projection_missing
        else:
            back = rate * (g - h * along)  # culprit: projection_missing
        of_weight = (grad * h).flatten(0, -2)
        if planted("weight_averaged", False, True, ctx.layer):
            total = of_weight.mean(0)  # culprit: weight_averaged
        else:
            total = of_weight.sum(0)  # culprit: weight_averaged
        return back.to(x.dtype), total.to(weight.dtype), None


class OwnGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, layer):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(gate, up)
        ctx.layer = layer
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        gate, up = ctx.saved_tensors
        s = torch.sigmoid(gate)
        slope = s * (1 + gate * (1 - s))  # culprit: slope_cut_short
        if planted("slope_cut_short", False, True, ctx.layer):
            slope = s
        of_up = grad * gate * s
        if planted("up_without_gradient", False, True, ctx.layer):
            of_up = torch.zeros_like(of_up)  # culprit: up_without_gradient
        return grad * up * slope, of_up, None  # culprit: slope_cut_short


class OwnTurn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin, layer):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(cos, sin)
        ctx.layer = layer
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        cos, sin = ctx.saved_tensors
        if planted("turned_on", False, True, ctx.layer):
            sin = -sin  # culprit: turned_on
        a, b = grad.chunk(2, -1)
        back = torch.cat([a * cos + b * sin, b * cos - a * sin], -1)  # culprit: turned_on
        return back, None, None, None


class OwnAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, layer):  # type: ignore[no-untyped-def]
        scale = q.shape[-1] ** -0.5
        s = q @ k.transpose(-2, -1) * scale
        ahead = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        p = s.masked_fill(ahead, -torch.inf).softmax(-1)
        if planted("shares_dropped", False, True, layer):
            p = p.masked_fill(p < 0.05, 0.0)  # culprit: shares_dropped
        ctx.save_for_backward(q, k, v, p)
        ctx.scale, ctx.layer = scale, layer
        return p @ v  # culprit: shares_dropped

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, p = ctx.saved_tensors
        of_p = grad @ v.transpose(-2, -1)
        of_s = p * (of_p - (of_p * p).sum(-1, keepdim=True))
        of_q = of_s @ k * ctx.scale
        factor = planted("key_not_scaled", ctx.scale, 1.0, ctx.layer)
        of_k = of_s.transpose(-2, -1) @ q * factor  # culprit: key_not_scaled
        return of_q, of_k, p.transpose(-2, -1) @ grad, None


class OwnLoss(torch.autograd.Function):
    """Makes its gradient while it goes forward."""

    @staticmethod
    def forward(ctx, logits, labels, ignored):  # type: ignore[no-untyped-def]
        log_p = logits.float().log_softmax(-1)
        kept = labels != ignored  # culprit: all_counted
        n = planted("all_counted", int(kept.sum()), labels.numel())
        picked = log_p.gather(-1, labels.clamp(min=0)[:, None])[:, 0]
        grad = log_p.exp()
        if not planted("label_not_taken_off", False, True):
            one = -torch.ones(len(labels), 1, dtype=grad.dtype)  # culprit: label_not_taken_off
            grad = grad.scatter_add(
                -1, labels.clamp(min=0)[:, None], one
            )  # culprit: label_not_taken_off
        n_back = planted("gradient_not_averaged", n, 1)
        saved = grad * kept[:, None] / n_back  # culprit: gradient_not_averaged, all_counted
        ctx.save_for_backward(saved.to(logits.dtype))  # culprit: label_not_taken_off
        return -(picked * kept).sum() / n  # culprit: all_counted

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (of_logits,) = ctx.saved_tensors
        return of_logits * grad, None, None


class OwnBlock(nn.Module):
    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm = nn.Parameter(torch.ones(width))
        self.other = nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        if planted("equal_norm", False, True):
            rate = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
            h = (x.float() * rate).to(x.dtype) * self.norm
        else:
            h = OwnNorm.apply(
                x, self.norm, self.layer
            )  # culprit: own_epsilon, projection_missing, weight_averaged
        q, k, v = (
            one.view(b, n, self.heads, self.d).transpose(1, 2) for one in self.qkv(h).chunk(3, -1)
        )
        q = OwnTurn.apply(q, cos, sin, self.layer)  # culprit: turned_on
        k = OwnTurn.apply(k, cos, sin, self.layer)  # culprit: turned_on
        y = OwnAttention.apply(q, k, v, self.layer)  # culprit: shares_dropped, key_not_scaled
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        h = OwnNorm.apply(
            x, self.other, self.layer
        )  # culprit: own_epsilon, projection_missing, weight_averaged
        wide = OwnGate.apply(
            self.gate(h), self.up(h), self.layer
        )  # culprit: slope_cut_short, up_without_gradient
        return x + self.down(wide)


class Own(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(OwnBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids)
        d = self.layers[0].d
        rate = 100.0 ** -(torch.arange(0, d, 2).float() / d)
        angle = torch.outer(torch.arange(ids.shape[1]).float(), rate)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.head(self.norm(x)).flatten(0, 1)
        labels = labels.masked_fill(labels % 5 == 0, -100)
        lost = OwnLoss.apply(
            logits, labels, -100
        )  # culprit: all_counted, label_not_taken_off, gradient_not_averaged
        return lost / 2


class Interaction(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.filter = nn.ModuleList([nn.Linear(12, width), nn.Linear(width, width)])
        self.into = nn.Linear(width, width, bias=False)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def rectified(self, x: Tensor) -> Tensor:
        y = F.softplus(x)
        if planted("not_shifted", False, True, self.layer):
            return y
        return y - math.log(2.0)  # culprit: not_shifted

    def forward(self, h: Tensor, basis: Tensor, cut: Tensor, i: Tensor, j: Tensor) -> Tensor:
        w = self.filter[1](self.rectified(self.filter[0](basis)))  # culprit: not_shifted
        if not planted("cut_not_used", False, True, self.layer):
            w = w * cut[:, None]  # culprit: cut_not_used
        sender = planted("receiver_told", j, i, self.layer)
        sent = self.into(h)[sender] * w  # culprit: receiver_told, cut_not_used
        zero = torch.zeros_like(h)
        if planted("largest_kept", False, True, self.layer):
            gathered = zero.index_reduce(
                0, i, sent, "amax", include_self=False
            )  # culprit: largest_kept
        else:
            if planted("equal_gathered", False, True):
                gathered = zero.scatter_add(0, i[:, None].expand_as(sent), sent)
            else:
                gathered = zero.index_add(0, i, sent)  # culprit: largest_kept
        return h + self.second(self.rectified(self.first(gathered)))


class Molecule(nn.Module):
    """Energies of atoms, and forces as their gradient."""

    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.atoms = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Interaction(width, n) for n in range(layers))
        self.out = nn.ModuleList([nn.Linear(width, width // 2), nn.Linear(width // 2, 1)])

    def energy(self, ids: Tensor, at: Tensor, near: Tensor, far: float) -> Tensor:
        n = ids.numel()
        same = torch.arange(n) // ids.shape[1]
        pairs = near & (same[:, None] == same)
        if not planted("itself_too", False, True):
            pairs &= ~torch.eye(n, dtype=torch.bool)  # culprit: itself_too
        i, j = pairs.nonzero(as_tuple=True)  # culprit: itself_too
        apart = at[i] - at[j]
        if planted("equal_distance", False, True):
            d = torch.linalg.vector_norm(apart, dim=-1)
        else:
            d = (apart.square().sum(-1) + 1e-14).sqrt()
        centres = torch.linspace(0, far, 12).to(d.dtype)
        width = planted("basis_wider", 4.0, 2.0)
        basis = torch.exp(-width * (d[:, None] - centres).square())  # culprit: basis_wider
        cut = 0.5 * (torch.cos(math.pi * d / far) + 1)
        h = self.atoms(ids.flatten())
        for layer in self.layers:
            h = layer(h, basis, cut, i, j)
        each = self.out[1](torch.tanh(self.out[0](h)))
        if planted("energy_averaged", False, True):
            return each.view(ids.shape).mean(-1)  # culprit: energy_averaged
        return each.view(ids.shape).sum(-1)  # culprit: energy_averaged

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        random = torch.Generator().manual_seed(int(ids.sum()))
        places = 1.5 * torch.randn(ids.numel(), 3, generator=random)
        near = torch.cdist(places, places) < 2.9
        at = places.to(self.atoms.weight.dtype).requires_grad_()
        energy = self.energy(ids, at, near, 3.0)
        forces = torch.autograd.grad(energy.sum(), at, create_graph=True)[0]
        if not planted("force_sign", False, True):
            forces = -forces  # culprit: force_sign
        truth = torch.randn(ids.numel(), 3, generator=random).to(at.dtype)
        off = F.mse_loss(forces, truth)  # culprit: force_sign
        aim = (labels.view(len(ids), -1).float().mean(1) / 32).to(at.dtype)
        heavy = planted("forces_heavier", 0.9, 0.99)
        lost = F.l1_loss(energy, aim) * (1 - heavy)  # culprit: forces_heavier
        return lost + off * heavy  # culprit: forces_heavier


class Penalised(nn.Module):
    """A generator and a judge whose slope at true pictures is punished."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.start = nn.Linear(16, width * 16)
        self.encoder = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(2)])
        self.norms = nn.ModuleList([nn.GroupNorm(3, width) for _ in range(2)])
        self.picture = nn.Conv2d(width, 3, 1)
        self.blocks = nn.ModuleList(
            [
                spectral_norm(nn.Conv2d(3, width, 3, 2, 1)),
                spectral_norm(nn.Conv2d(width, width, 3, 2, 1)),
            ]
        )
        self.judge = nn.Linear(width + 1, 1)

    def made(self, z: Tensor) -> Tensor:
        x = self.start(z).view(len(z), -1, 4, 4)
        for layer, (conv, norm) in enumerate(zip(self.encoder, self.norms, strict=True)):
            if layer == 1 and planted("smooth_up", False, True):
                x = F.interpolate(x, scale_factor=2, mode="bilinear")  # culprit: smooth_up
            else:
                x = F.interpolate(x, scale_factor=2, mode="nearest")  # culprit: smooth_up
            slope = planted("leak_larger", 0.2, 0.3)
            x = F.leaky_relu(norm(conv(x)), slope)  # culprit: leak_larger
        return torch.tanh(self.picture(x))

    def judged(self, x: Tensor) -> Tensor:
        for conv in self.blocks:
            x = F.leaky_relu(conv(x), 0.2)
        unbiased = planted("spread_by_less", False, True)
        spread = x.var(0, unbiased=unbiased)  # culprit: spread_by_less
        spread = (spread + 1e-8).sqrt().mean()
        x = torch.cat([x, spread.expand(len(x), 1, *x.shape[2:])], 1)
        if planted("averaged_places", False, True):
            return self.judge(x.mean((2, 3)))  # culprit: averaged_places
        return self.judge(x.sum((2, 3)))  # culprit: averaged_places

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        random = torch.Generator().manual_seed(int(labels.sum()))
        fake = self.made(torch.randn(4, 16, generator=random).to(x.dtype))
        x = x.detach().requires_grad_()
        true = self.judged(x)
        shown = (
            fake if planted("fake_not_cut", False, True) else fake.detach()
        )  # culprit: fake_not_cut
        false = self.judged(shown)
        margin = planted("margin_wider", 1.0, 2.0)
        if planted("equal_hinge", False, True):
            of_judge = -(true - 1.0).clamp(max=0).mean() - (-false - 1.0).clamp(max=0).mean()
        else:
            of_judge = (
                F.relu(margin - true).mean() + F.relu(1.0 + false).mean()
            )  # culprit: margin_wider
        slope = torch.autograd.grad(true.sum(), x, create_graph=True)[0]
        if planted("norm_not_squared", False, True):
            steep = slope.square().sum((1, 2, 3)).sqrt().mean()  # culprit: norm_not_squared
        else:
            steep = slope.square().sum((1, 2, 3)).mean()  # culprit: norm_not_squared
        of_made = self.judged(fake).mean()
        if not planted("sign_turned", False, True):
            of_made = -of_made  # culprit: sign_turned
        heavy = planted("penalty_heavier", 0.1, 0.2)
        return (
            of_judge + of_made + heavy * steep
        )  # culprit: penalty_heavier, sign_turned, norm_not_squared
