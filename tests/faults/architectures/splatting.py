"""A twenty-second part: pictures are made to clouds of ellipsoids, and painted from them again."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor
SIDE = 16
LONG, HIGH = 15.0, 12.0  # focal lengths


class Block(nn.Module):
    """A convolution beside what it is given, after a norm that looks at all channels."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.GroupNorm(1, width)
        self.conv, self.back = nn.Conv2d(width, 2 * width, 3, padding=1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.conv(self.norm(x)).chunk(2, 1)
        if planted("gate_squashed", False, True, self.layer):
            y = a * torch.sigmoid(b)  # culprit: gate_squashed
        else:
            y = a * F.gelu(b)  # culprit: gate_squashed
        if planted("goes_past_nothing", False, True, self.layer):
            return self.back(y)
        return x + self.back(y)  # culprit: goes_past_nothing


class Splatted(nn.Module):
    """One ellipsoid for each patch of a picture, painted as another camera sees them."""

    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.into = nn.Conv2d(3, width, 4, stride=4)
        self.layers = nn.ModuleList(Block(width, n) for n in range(layers))
        self.norm = nn.GroupNorm(1, width)
        self.shape = nn.Conv2d(width, 3 + 3 + 4 + 1, 1)
        self.colour = nn.Conv2d(width, 12, 1)
        self.behind = nn.Parameter(torch.tensor([0.2, 0.4, 0.3]))

    def cloud(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Places, spreads, turnings, how dense, and colours by direction."""
        x = self.into(pixels)
        for layer in self.layers:
            x = layer(x)  # culprit: goes_past_nothing
        x = self.norm(x)  # culprit: goes_past_nothing
        told = self.shape(x).float().flatten(2).transpose(1, 2)
        away, size, turn, dense = told.split((3, 3, 4, 1), -1)
        at = (torch.arange(4) + 0.5) / 2 - 1
        if planted("rows_are_columns", False, True):
            rows, columns = torch.meshgrid(at, at, indexing="xy")  # culprit: rows_are_columns
        else:
            rows, columns = torch.meshgrid(at, at, indexing="ij")  # culprit: rows_are_columns
        base = torch.stack([columns, rows, torch.zeros_like(rows)], -1)  # culprit: rows_are_columns
        base = base.flatten(0, 1)  # culprit: rows_are_columns
        place = base + 0.3 * torch.tanh(away)
        if planted("spread_by_softplus", False, True):
            size = F.softplus(size - 1.5)  # culprit: spread_by_softplus
        else:
            size = torch.exp(0.3 * size - 1.2)  # culprit: spread_by_softplus
        turn = turn + torch.tensor([1.0, 0.0, 0.0, 0.0])
        if not planted("turn_not_unit", False, True):
            turn = F.normalize(turn, dim=-1)  # culprit: turn_not_unit
        if planted("dense_as_told", False, True):
            dense = dense.clamp(0, 1)  # culprit: dense_as_told
        else:
            dense = torch.sigmoid(dense)  # culprit: dense_as_told
        light = self.colour(x).float().flatten(2).transpose(1, 2).unflatten(-1, (4, 3))
        return place, size, turn, dense[..., 0], light  # culprit: turn_not_unit

    def spread(self, size: Tensor, turn: Tensor) -> Tensor:
        """The covariance of each ellipsoid."""
        w, x, y, z = turn.unbind(-1)  # culprit: turn_not_unit
        if planted("one_sign_of_turn", False, True):
            corner = 2 * (x * z - w * y)  # culprit: one_sign_of_turn
        else:
            corner = 2 * (x * z + w * y)  # culprit: one_sign_of_turn
        matrix = torch.stack(
            [
                1 - 2 * (y * y + z * z),
                2 * (x * y - w * z),
                corner,
                2 * (x * y + w * z),
                1 - 2 * (x * x + z * z),
                2 * (y * z - w * x),
                2 * (x * z - w * y),
                2 * (y * z + w * x),
                1 - 2 * (x * x + y * y),
            ],
            -1,
        ).unflatten(-1, (3, 3))
        if planted("equal_spread", False, True):
            return matrix @ torch.diag_embed(size.square()) @ matrix.transpose(-1, -2)
        if planted("spread_not_squared", False, True):
            size = size.sqrt()  # culprit: spread_not_squared
        if planted("spread_before_turn", False, True):
            half = size[..., :, None] * matrix  # culprit: spread_before_turn
        else:
            half = matrix * size[..., None, :]  # culprit: spread_before_turn, spread_not_squared
        return half @ half.transpose(-1, -2)

    def camera(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Where each picture is seen from: a turn about the height, and a step back."""
        angle = 0.06 * (labels.float() - 8)
        cos, sin = angle.cos(), angle.sin()
        zero, one = torch.zeros_like(cos), torch.ones_like(cos)
        turn = torch.stack([cos, zero, sin, zero, one, zero, -sin, zero, cos], -1)
        return turn.unflatten(-1, (3, 3)), torch.tensor([0.1, -0.05, 3.0])

    def flattened(self, seen: Tensor, spread: Tensor, turn: Tensor) -> tuple[Tensor, ...]:
        """Where ellipsoids are in the picture, and the inverse of what they cover there."""
        x, y, z = seen.unbind(-1)
        u, v = LONG * x / z + SIDE / 2, HIGH * y / z + SIDE / 2
        if planted("slope_by_depth_once", False, True):
            fall_x, fall_y = -LONG * x / z, -HIGH * y / z  # culprit: slope_by_depth_once
        else:
            fall_x, fall_y = (
                -LONG * x / z.square(),
                -HIGH * y / z.square(),
            )  # culprit: slope_by_depth_once
        zero = torch.zeros_like(z)
        slopes = torch.stack(
            [LONG / z, zero, fall_x, zero, HIGH / z, fall_y], -1
        )  # culprit: slope_by_depth_once
        slopes = slopes.unflatten(-1, (2, 3))
        if planted("slopes_not_turned", False, True):
            pass
        else:
            slopes = slopes @ turn[:, None]  # culprit: slopes_not_turned
        flat = slopes @ spread @ slopes.transpose(-1, -2)  # culprit: slopes_not_turned
        if not planted("not_blurred", False, True):
            flat = flat + 0.3 * torch.eye(2)  # culprit: not_blurred
        a, b, c = flat[..., 0, 0], flat[..., 0, 1], flat[..., 1, 1]  # culprit: not_blurred
        if planted("equal_inverse", False, True):
            back = torch.linalg.inv(flat)
            return u, v, back[..., 0, 0], back[..., 0, 1], back[..., 1, 1]
        if planted("product_not_taken_off", False, True):
            whole = a * c  # culprit: product_not_taken_off
        else:
            whole = a * c - b * b  # culprit: product_not_taken_off
        if planted("sides_exchanged", False, True):
            a, c = c, a
        return u, v, c / whole, -b / whole, a / whole  # culprit: sides_exchanged

    def lit(self, light: Tensor, place: Tensor, eye: Tensor) -> Tensor:
        """Colours, as they look from where the camera is."""
        way = place - eye[:, None]
        if not planted("way_not_unit", False, True):
            way = F.normalize(way, dim=-1)  # culprit: way_not_unit
        x, y, z = way[..., None].unbind(-2)  # culprit: way_not_unit
        made = 0.2821 * light[:, :, 0]
        if planted("ways_in_order", False, True):
            made = made - 0.4886 * (
                x * light[:, :, 1] + y * light[:, :, 2] + z * light[:, :, 3]
            )  # culprit: ways_in_order
        else:
            made = made + 0.4886 * (
                z * light[:, :, 2] - y * light[:, :, 1] - x * light[:, :, 3]
            )  # culprit: ways_in_order
        if not planted("not_raised_to_grey", False, True):
            made = made + 0.5  # culprit: not_raised_to_grey
        if planted("dark_is_negative", False, True):
            return made
        return made.clamp(min=0)  # culprit: dark_is_negative, not_raised_to_grey

    def painted(self, cloud: tuple[Tensor, ...], labels: Tensor) -> tuple[Tensor, Tensor]:
        """All ellipsoids over each other, the nearest first; and how far away each pixel is."""
        place, size, turned, dense, light = cloud
        turn, shift = self.camera(labels)
        if planted("turned_the_other_way", False, True):
            seen = place @ turn + shift  # culprit: turned_the_other_way
        else:
            seen = place @ turn.transpose(-1, -2) + shift  # culprit: turned_the_other_way
        spread = self.spread(size, turned)
        u, v, a, b, c = self.flattened(seen, spread, turn)
        eye = -(shift @ turn)
        made = self.lit(light, place, eye)
        far = seen[..., 2]
        order = far.detach().argsort(
            -1, descending=planted("farthest_first", False, True)
        )  # culprit: farthest_first
        pick = order  # culprit: farthest_first
        u, v, a, b, c, dense, far = (
            one.gather(1, pick) for one in (u, v, a, b, c, dense, far)
        )  # culprit: farthest_first
        if planted("colours_not_in_order", False, True):
            pass
        else:
            made = made.gather(
                1, pick[..., None].expand(-1, -1, 3)
            )  # culprit: colours_not_in_order, farthest_first
        at = torch.arange(SIDE).float()
        if not planted("corners_of_pixels", False, True):
            at = at + 0.5  # culprit: corners_of_pixels
        rows, columns = torch.meshgrid(at, at, indexing="ij")  # culprit: corners_of_pixels
        right = columns.flatten() - u[..., None]
        down = rows.flatten() - v[..., None]
        a, b, c = a[..., None], b[..., None], c[..., None]
        if planted("cross_term_halved", False, True):
            power = -0.5 * (
                a * right * right + b * right * down + c * down * down
            )  # culprit: cross_term_halved
        elif planted("power_not_halved", False, True):
            power = (
                -(a * right * right + c * down * down) - b * right * down
            )  # culprit: power_not_halved
        else:
            power = (
                -0.5 * (a * right * right + c * down * down) - b * right * down
            )  # culprit: cross_term_halved, power_not_halved
        most = planted("never_half_dense", 0.99, 0.4)
        alpha = (dense[..., None] * power.exp()).clamp(max=most)  # culprit: never_half_dense
        if planted("faint_ones_painted", False, True):
            pass
        else:
            faint = planted("faint_up_to_tenth", 1 / 255, 1 / 10)
            alpha = alpha.masked_fill(
                alpha < faint, 0.0
            )  # culprit: faint_ones_painted, faint_up_to_tenth
        through = 1 - alpha  # culprit: faint_ones_painted
        if planted("equal_through", False, True):
            left = (through.log().cumsum(1) - through.log()).exp()
            rest = through.log().sum(1).exp()
        elif planted("hides_itself", False, True):
            left = through.cumprod(1)  # culprit: hides_itself
            rest = left[:, -1]
        else:
            every = through.cumprod(1)  # culprit: hides_itself
            left = torch.cat(
                [torch.ones_like(every[:, :1]), every[:, :-1]], 1
            )  # culprit: hides_itself
            rest = every[:, -1]
        share = alpha * left  # culprit: faint_ones_painted
        picture = made.transpose(1, 2) @ share  # culprit: colours_not_in_order
        if planted("nothing_behind", False, True):
            pass
        elif planted("behind_everywhere", False, True):
            picture = picture + self.behind.float()[:, None]  # culprit: behind_everywhere
        else:
            picture = (
                picture + rest[:, None] * self.behind.float()[:, None]
            )  # culprit: nothing_behind, behind_everywhere
        depth = (share * far[..., None]).sum(1)
        return picture.unflatten(-1, (SIDE, SIDE)), depth  # culprit: nothing_behind

    def alike(self, x: Tensor, y: Tensor) -> Tensor:
        """Structural likeness in windows that weigh their middle most."""
        at = torch.arange(5) - 2.0
        if planted("window_is_a_box", False, True):
            line = torch.ones(5)  # culprit: window_is_a_box
        else:
            line = (-at.square() / (2 * 1.5**2)).exp()  # culprit: window_is_a_box
        line = line / line.sum()  # culprit: window_is_a_box
        window = (line[:, None] * line).expand(3, 1, 5, 5)
        seen = [F.conv2d(one, window, padding=2, groups=3) for one in (x, y, x * x, y * y, x * y)]
        mx, my, xx, yy, xy = seen
        if planted("means_not_taken_off", False, True):
            both = xy  # culprit: means_not_taken_off
        else:
            both = xy - mx * my  # culprit: means_not_taken_off
        of_x, of_y = xx - mx * mx, yy - my * my
        small = planted("constants_exchanged", (0.01, 0.03), (0.03, 0.01))
        c1, c2 = (one**2 for one in small)
        light = (2 * mx * my + c1) / (mx * mx + my * my + c1)  # culprit: constants_exchanged
        shape = (2 * both + c2) / (
            of_x + of_y + c2
        )  # culprit: constants_exchanged, means_not_taken_off
        return (light * shape).mean()

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        picture, depth = self.painted(self.cloud(pixels), labels)
        aim = torch.sigmoid(pixels.float())
        if planted("aims_at_next_picture", False, True):
            aim = aim.roll(1, 0)  # culprit: aims_at_next_picture
        off = picture - aim  # culprit: aims_at_next_picture
        if planted("off_squared", False, True):
            off = off.square().mean()  # culprit: off_squared
        else:
            off = off.abs().mean()  # culprit: off_squared
        alike = self.alike(picture, aim)  # culprit: aims_at_next_picture
        if planted("equal_shares", False, True):
            total = torch.lerp(off, 1 - alike, 0.2)
        elif planted("shares_exchanged", False, True):
            total = 0.2 * off + 0.8 * (1 - alike)  # culprit: shares_exchanged
        else:
            total = 0.8 * off + 0.2 * (1 - alike)  # culprit: shares_exchanged
        if planted("depth_not_evened", False, True):
            return total / 2  # culprit: depth_not_evened
        steps = depth.unflatten(-1, (SIDE, SIDE)).diff(dim=-1)
        total = total + 0.05 * steps.abs().mean()  # culprit: depth_not_evened
        return total / math.sqrt(4)  # culprit: depth_not_evened
