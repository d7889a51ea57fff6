"""A twenty-first part: fields are moved on by their waves, and read off along curves."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class WaveProduct(torch.autograd.Function):
    """Each wave of all channels by a matrix of its own."""

    @staticmethod
    def forward(ctx, x, weight, layer):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        if planted("matrix_transposed", False, True, layer):
            return torch.einsum("bixy,oixy->boxy", x, weight)  # culprit: matrix_transposed
        return torch.einsum("bixy,ioxy->boxy", x, weight)  # culprit: matrix_transposed

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight = ctx.saved_tensors
        if not planted("gradient_not_conjugated", False, True, ctx.layer):
            weight = weight.conj()  # culprit: gradient_not_conjugated
        of_x = torch.einsum("boxy,ioxy->bixy", grad, weight)  # culprit: gradient_not_conjugated
        of_weight = torch.einsum("bixy,boxy->ioxy", x.conj(), grad)
        if planted("weight_by_batch", False, True, ctx.layer):
            of_weight = of_weight / len(x)  # culprit: weight_by_batch
        return of_x, of_weight, None  # culprit: weight_by_batch


class Waves(nn.Module):
    """The slowest waves of a field are mixed, beside a mix of its channels at each place."""

    def __init__(self, width: int, layer: int, modes: int = 4) -> None:
        super().__init__()
        self.layer, self.modes = layer, modes
        self.slow = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.back = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.beside = nn.Conv2d(width, width, 1)
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def mixed(self, x: Tensor, weight: Tensor) -> Tensor:
        if planted("equal_waves", False, True, self.layer):
            return (x[:, :, None] * weight).sum(1)
        return WaveProduct.apply(
            x, weight, self.layer
        )  # culprit: matrix_transposed, gradient_not_conjugated, weight_by_batch

    def filtered(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        kept = planted("modes_one_fewer", self.modes, self.modes - 1, self.layer)
        how = planted("scaled_one_way", "backward", "ortho", self.layer)
        told = torch.fft.rfft2(x.float(), norm=how)  # culprit: scaled_one_way
        made = torch.zeros_like(told)
        if planted("back_by_same", False, True, self.layer):
            back = torch.view_as_complex(self.slow.float())  # culprit: back_by_same
        else:
            back = torch.view_as_complex(self.back.float())  # culprit: back_by_same
        slow = torch.view_as_complex(self.slow.float())
        slow = slow[:, :, :kept, :kept]  # culprit: modes_one_fewer
        back = back[:, :, :kept, :kept]  # culprit: modes_one_fewer
        made[:, :, :kept, :kept] = self.mixed(
            told[:, :, :kept, :kept], slow
        )  # culprit: modes_one_fewer
        start = planted("back_is_middle", h - kept, h - 2 * kept, self.layer)
        rows = slice(start, start + kept)
        if not planted("back_left", False, True, self.layer):
            made[:, :, rows, :kept] = self.mixed(  # culprit: back_left
                told[:, :, rows, :kept],
                back,  # culprit: back_by_same, back_is_middle
            )  # culprit: modes_one_fewer
        return torch.fft.irfft2(made, s=(h, w)).to(x.dtype)  # culprit: back_left

    def forward(self, x: Tensor) -> Tensor:
        y = self.filtered(x)
        if not planted("beside_left", False, True, self.layer):
            y = y + self.beside(x)  # culprit: beside_left
        over = planted("normed_over_channels", (2, 3), (1,), self.layer)
        if planted("equal_normed", False, True, self.layer):
            y = F.instance_norm(y, weight=self.gain, bias=self.bias)
        else:
            wide = y.float()  # culprit: beside_left
            mean = wide.mean(over, keepdim=True)  # culprit: normed_over_channels
            one_less = planted("spread_of_one_less", 0, 1, self.layer)
            spread = wide.var(
                over, correction=one_less, keepdim=True
            )  # culprit: spread_of_one_less, normed_over_channels
            y = ((wide - mean) * torch.rsqrt(spread + 1e-5)).to(
                x.dtype
            )  # culprit: normed_over_channels
            y = y * self.gain.view(-1, 1, 1) + self.bias.view(-1, 1, 1)
        form = planted("bent_by_tanh", "none", "tanh", self.layer)
        if self.layer == 0 or planted("last_bent_too", False, True, self.layer):
            return F.gelu(y, approximate=form)  # culprit: bent_by_tanh, last_bent_too
        return y  # culprit: last_bent_too


class Curves(nn.Module):
    """Each output is a sum of curves, one for each input: pieces of third degree."""

    knots: Tensor

    def __init__(self, width: int, out: int, layer: int, steps: int = 5, degree: int = 3) -> None:
        super().__init__()
        self.layer, self.steps, self.degree = layer, steps, degree
        self.base = nn.Parameter(torch.randn(out, width) / width**0.5)
        self.curve = nn.Parameter(0.4 * torch.randn(out, width, steps + degree) / width**0.5)
        self.size = nn.Parameter(1 + 0.2 * torch.randn(out, width))
        at = torch.arange(-degree, steps + degree + 1) * (4.0 / steps) - 2.0
        self.register_buffer("knots", at)

    def pieces(self, x: Tensor) -> Tensor:
        """How much of each piece there is: the usual recursion over the degree."""
        x, at = x[..., None].float(), self.knots.float()
        if planted("knots_one_late", False, True, self.layer):
            at = at + 4.0 / self.steps  # culprit: knots_one_late
        b = ((x >= at[:-1]) & (x < at[1:])).float()  # culprit: knots_one_late
        for k in range(1, planted("degree_of_two", self.degree, 2, self.layer) + 1):
            near = planted("left_by_next", at[k:-1], at[k + 1 :], self.layer)
            left = (x - at[: -(k + 1)]) / (
                near - at[: -(k + 1)]
            )  # culprit: left_by_next, degree_of_two
            if planted("right_not_turned", False, True, self.layer):
                right = (x - at[k + 1 :]) / (
                    at[k + 1 :] - at[1:-k]
                )  # culprit: right_not_turned, degree_of_two
            else:
                right = (at[k + 1 :] - x) / (
                    at[k + 1 :] - at[1:-k]
                )  # culprit: right_not_turned, degree_of_two
            b = left * b[..., :-1] + right * b[..., 1:]  # culprit: degree_of_two
        return b[..., : self.steps + self.degree]  # culprit: degree_of_two

    def forward(self, x: Tensor) -> Tensor:
        if planted("base_rectified", False, True, self.layer):
            base = F.relu(x)  # culprit: base_rectified
        else:
            base = F.silu(x)  # culprit: base_rectified
        y = F.linear(base, self.base)
        curve = self.curve
        if not planted("curves_not_sized", False, True, self.layer):
            curve = curve * self.size[..., None]  # culprit: curves_not_sized
        told = self.pieces(x).to(x.dtype)
        if planted("equal_curves", False, True, self.layer):
            return y + torch.einsum("...ik,oik->...o", told, curve)
        return y + F.linear(told.flatten(-2), curve.flatten(1))  # culprit: curves_not_sized


class Field(nn.Module):
    """How a field goes on in time; judged by its size, its slopes and what nature allows."""

    def __init__(self, width: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.lift = nn.Conv2d(5, width, 1)
        self.layers = nn.ModuleList(Waves(width, n) for n in range(layers))
        self.curves = nn.ModuleList([Curves(width, 6, 0), Curves(6, 1, 1)])

    def slopes(self, u: Tensor) -> tuple[Tensor, Tensor]:
        step = planted("slopes_not_spaced", 2 / 16, 2.0)
        if planted("slopes_one_sided", False, True):
            down = (u.roll(-1, -2) - u) * 16  # culprit: slopes_one_sided
            along = (u.roll(-1, -1) - u) * 16  # culprit: slopes_one_sided
            return down, along
        if planted("slopes_other_way", False, True):
            along = (u.roll(1, -1) - u.roll(-1, -1)) / step  # culprit: slopes_other_way
        else:
            along = (
                u.roll(-1, -1) - u.roll(1, -1)
            ) / step  # culprit: slopes_other_way, slopes_one_sided, slopes_not_spaced
        down = (
            u.roll(-1, -2) - u.roll(1, -2)
        ) / step  # culprit: slopes_one_sided, slopes_not_spaced
        return down, along

    def apart(self, made: Tensor, aim: Tensor) -> Tensor:
        """How far off, by how large the aim is."""
        off = (made - aim).flatten(1)
        if planted("equal_size", False, True):
            size = aim.flatten(1).square().sum(1).sqrt()
            return (off.square().sum(1).sqrt() / size).mean()
        if planted("sizes_of_batch", False, True):
            return off.norm() / aim.norm()  # culprit: sizes_of_batch
        if planted("size_left", False, True):
            return off.norm(dim=1).mean()  # culprit: size_left
        return (
            off.norm(dim=1) / aim.flatten(1).norm(dim=1)
        ).mean()  # culprit: sizes_of_batch, size_left

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        end = planted("places_to_one", 1 - 1 / 16, 1.0)
        at = torch.linspace(0, end, 16)  # culprit: places_to_one
        down, along = torch.meshgrid(at, at, indexing="ij")
        if planted("places_exchanged", False, True):
            down, along = along, down
        where = torch.stack([down, along])  # culprit: places_exchanged
        where = where.expand(len(x), -1, -1, -1).to(x.dtype)
        y = self.lift(torch.cat([x, where], 1))
        for layer in self.layers:
            y = layer(y)
        y = y.movedim(1, -1)  # culprit: last_bent_too
        u = self.curves[1](self.curves[0](y))[..., 0].float()
        aim = F.avg_pool2d(x.float(), 3, 1, 1).sum(1) + 0.1 * labels.view(-1, 1, 1)
        lost = self.apart(u, aim)
        made, wanted = self.slopes(u), self.slopes(aim)
        heavy = planted("slopes_heavier", 0.3, 0.6)
        for one, other in zip(made, wanted, strict=True):
            lost = lost + heavy * self.apart(one, other)  # culprit: slopes_heavier
        twice = self.slopes(made[0])[0] + self.slopes(made[1])[1]
        if planted("nature_other_sign", False, True):
            rest = u - aim + 0.002 * twice  # culprit: nature_other_sign
        else:
            rest = u - aim - 0.002 * twice  # culprit: nature_other_sign
        nature = rest.square().mean()
        if planted("nature_left", False, True):
            return lost / 2  # culprit: nature_left
        return (lost + 0.1 * nature) / 2  # culprit: nature_left
