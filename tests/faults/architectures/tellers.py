"""A sixteenth part: words foretold, states corrected piece by piece, flows along time."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, union-attr, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class ForetellingBlock(nn.Module):
    """Attention within documents that are packed into one row."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm, self.other = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q_norm, self.k_norm = nn.RMSNorm(self.d, eps=1e-6), nn.RMSNorm(self.d, eps=1e-6)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        if planted("key_not_normal", False, True, self.layer):
            q, k = self.q_norm(q), k  # culprit: key_not_normal
        else:
            q, k = self.q_norm(q), self.k_norm(k)  # culprit: key_not_normal
        q = self.turned(q, cos, sin)
        k = self.turned(k, cos, sin)  # culprit: key_not_normal
        warmth = planted("warmth_once", 1.2**2, 1.2, self.layer)
        s = (q @ k.transpose(-2, -1)) * (self.d**-0.5 * warmth)  # culprit: warmth_once
        seen = mask
        if planted("last_documents_mixed", False, True, self.layer):
            seen = torch.ones_like(mask).tril()  # culprit: last_documents_mixed
        s = s.masked_fill(~seen, -torch.inf)  # culprit: last_documents_mixed
        y = s.softmax(-1) @ v
        if planted("heads_not_joined", False, True, self.layer):
            y = y.reshape(b, n, c)  # culprit: heads_not_joined
        else:
            y = y.transpose(1, 2).reshape(b, n, c)  # culprit: heads_not_joined
        x = x + self.o(y)  # culprit: heads_not_joined
        gate, up = self.up(self.other(x)).chunk(2, -1)
        bound = planted("bound_left_out", 1.0, 1e3, self.layer)
        gate, up = gate.clamp(max=bound), up.clamp(-bound, bound)  # culprit: bound_left_out
        more = planted("one_not_added", 1.0, 0.0, self.layer)
        return x + self.down(
            (up + more) * gate * torch.sigmoid(1.702 * gate)
        )  # culprit: one_not_added


class Foretold(nn.Module):
    """The next word, and by a block of its own the word after the next."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(ForetellingBlock(width, n) for n in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-6) for _ in range(2))
        self.joined, self.later = nn.Linear(2 * width, width), ForetellingBlock(width, layers)

    def lost(self, h: Tensor, aims: Tensor) -> Tensor:
        logits = F.linear(h, self.words.weight).float().flatten(0, 1)
        least = planted("less_smooth", 0.1, 0.05)
        if planted("equal_smooth", False, True):
            log_p = logits.log_softmax(-1)
            kept = (aims.flatten() != -100).float()
            picked = log_p.gather(-1, aims.flatten().clamp(min=0)[:, None])[:, 0]
            found = -((0.9 * picked + 0.1 * log_p.mean(-1)) * kept).sum() / kept.sum()
        else:
            found = F.cross_entropy(
                logits, aims.flatten(), label_smoothing=least
            )  # culprit: less_smooth, document_ends_judged
        peak = logits.logsumexp(-1)
        if not planted("peak_not_squared", False, True):
            peak = peak.square()  # culprit: peak_not_squared
        if planted("peak_of_padding", False, True):
            return found + 1e-2 * peak.mean()  # culprit: peak_of_padding
        kept = (aims.flatten() != -100).float()
        return (
            found + 1e-2 * (peak * kept).sum() / kept.sum()
        )  # culprit: peak_of_padding, peak_not_squared

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        b, n = ids.shape
        place = torch.arange(n)
        document = (place >= 7).long()
        if not planted("places_run_on", False, True):
            place = torch.where(document == 1, place - 7, place)  # culprit: places_run_on
        rate = 100.0 ** -(torch.arange(0, 8, 2).float() / 8)
        angle = place[:, None].float() * rate  # culprit: places_run_on
        cos, sin = (
            angle.cos().to(self.joined.weight.dtype),
            angle.sin().to(self.joined.weight.dtype),
        )
        mask = torch.ones(n, n, dtype=torch.bool).tril() & (document[:, None] == document)
        words = self.words(ids)
        x = words
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        aims = labels.view(b, n).clone()
        if not planted("document_ends_judged", False, True):
            aims[:, 6] = -100  # culprit: document_ends_judged
        found = self.lost(self.norm(x), aims)  # culprit: document_ends_judged
        ahead = planted("ahead_by_two", 1, 2)
        following = words.roll(-ahead, 1)  # culprit: ahead_by_two
        if planted("joined_the_other_way", False, True):
            both = torch.cat(
                [self.norms[1](following), self.norms[0](x)], -1
            )  # culprit: joined_the_other_way
        else:
            both = torch.cat(
                [self.norms[0](x), self.norms[1](following)], -1
            )  # culprit: joined_the_other_way
        if planted("states_are_cut", False, True):
            x = x.detach()  # culprit: states_are_cut
            both = torch.cat(
                [self.norms[0](x), self.norms[1](following)], -1
            )  # culprit: states_are_cut
        later = self.later(self.joined(both), cos, sin, mask)
        further = aims.roll(-1, 1)
        if not planted("last_word_judged", False, True):
            further[:, -1] = -100  # culprit: last_word_judged
        other = self.lost(self.norm(later), further)  # culprit: last_word_judged
        share = planted("later_heavier", 0.3, 1.0)
        return found + share * other  # culprit: later_heavier


class CorrectedBlock(nn.Module):
    """A state that is corrected by what it foretells wrongly, piece by piece."""

    piece = 4

    def __init__(self, width: int, layer: int, heads: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.turn = 0
        self.stale: Tensor | None = None
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.conv = nn.Conv1d(3 * width, 3 * width, 4, groups=3 * width, bias=False)
        self.share, self.fade = nn.Linear(width, heads), nn.Linear(width, heads)
        self.rate = nn.Parameter(torch.zeros(heads))
        self.gate, self.o = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.inner = nn.RMSNorm(self.d, eps=planted("inner_epsilon", 1e-5, 1e-1, layer))

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        wide = self.qkv(h).transpose(1, 2)
        sides = planted("padded_on_both", (3, 0), (2, 1), self.layer)
        wide = self.conv(F.pad(wide, sides))  # culprit: padded_on_both
        if not planted("silu_left_out", False, True, self.layer):
            wide = F.silu(wide)  # culprit: silu_left_out
        parts = wide.transpose(1, 2).view(b, n, 3, self.heads, self.d)  # culprit: silu_left_out
        q, k, v = parts.permute(2, 0, 3, 1, 4).float()
        if planted("keys_not_unit", False, True, self.layer):
            q, k = F.normalize(q, dim=-1), k  # culprit: keys_not_unit
        else:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)  # culprit: keys_not_unit
        if not planted("query_not_scaled", False, True, self.layer):
            q = q * self.d**-0.5  # culprit: query_not_scaled
        share = torch.sigmoid(self.share(h).float()).transpose(1, 2)[..., None]
        if planted("share_doubled", False, True, self.layer):
            share = share * 2  # culprit: share_doubled
        fade = -F.softplus(self.fade(h).float()) * self.rate.float().exp()
        fade = fade.transpose(1, 2)
        state = torch.zeros(b, self.heads, self.d, self.d)
        if self.turn and planted("state_is_stale", False, True, self.layer):
            state = self.stale  # culprit: state_is_stale
        told = []
        for start in range(0, n, self.piece):
            at = slice(start, start + self.piece)
            found, state = self.of_piece(
                q[:, :, at], k[:, :, at], v[:, :, at], share[:, :, at], fade[:, :, at], state
            )  # culprit: state_is_stale, keys_not_unit, query_not_scaled, share_doubled
            if planted("state_in_half", False, True, self.layer):
                state = state.bfloat16().float()  # culprit: state_in_half
            told.append(found)
        self.turn, self.stale = self.turn + 1, state.detach()
        y = self.inner(torch.cat(told, 2)).to(x.dtype)  # culprit: inner_epsilon
        y = y.transpose(1, 2).reshape(b, n, c)
        if planted("gate_is_sigmoid", False, True, self.layer):
            y = y * torch.sigmoid(self.gate(h))  # culprit: gate_is_sigmoid
        else:
            y = y * F.silu(self.gate(h))  # culprit: gate_is_sigmoid
        return x + self.o(y)

    def of_piece(
        self, q: Tensor, k: Tensor, v: Tensor, share: Tensor, fade: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        size = q.shape[2]
        total = fade.cumsum(-1)
        between = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
        before = -1 if not planted("itself_corrected", False, True, self.layer) else 0
        past = (((k * share) @ k.transpose(-2, -1)) * between).tril(
            before
        )  # culprit: itself_corrected
        whole = torch.eye(size) + past
        if planted("equal_solved", False, True):
            inverse = torch.linalg.inv(whole)
        else:
            inverse = torch.linalg.solve_triangular(whole, torch.eye(size), upper=False)
        late = total[..., None].exp()
        known = (inverse @ (k * share * late)) @ state  # culprit: state_is_stale
        new = inverse @ (v * share) - known
        inner = (q @ k.transpose(-2, -1)) * between
        if planted("state_not_faded", False, True, self.layer):
            found = q @ state + inner @ new  # culprit: state_not_faded, state_is_stale
        else:
            found = (q * late) @ state + inner @ new  # culprit: state_not_faded, state_is_stale
        end = total[..., -1:, None]
        rest = (end - total[..., None]).exp()
        added = (k * rest).transpose(-2, -1) @ new
        if planted("state_only_added", False, True, self.layer):
            return found, state + added  # culprit: state_only_added
        return found, state * end.exp() + added  # culprit: state_only_added, state_is_stale


class Corrected(nn.Module):
    """Trained by steps whose directions are made orthogonal."""

    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(CorrectedBlock(width, n) for n in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-6), nn.Linear(width, 64, bias=False)
        for n, one in enumerate(self.matrices()):
            self.register_buffer(f"momentum{n}", 1e-2 * torch.randn_like(one))

    def matrices(self) -> list[Tensor]:
        return [one for one in self.layers.parameters() if one.dim() == 2]

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def update(self) -> None:
        for n, one in enumerate(self.matrices()):
            momentum = getattr(self, f"momentum{n}")
            momentum.mul_(0.95).add_(
                one.grad, alpha=planted("gradient_damped", 1.0, 0.05)
            )  # culprit: gradient_damped
            if planted("not_ahead", False, True):
                way = momentum.float()  # culprit: not_ahead
            else:
                way = one.grad.add(momentum, alpha=0.95).float()  # culprit: not_ahead
            tall = way.shape[0] > way.shape[1]
            x = way.t() if tall else way
            x = x / (x.norm() + 1e-7)  # culprit: not_ahead
            third = planted("third_factor", 2.0315, 2.3015)
            for _ in range(planted("one_round_less", 3, 2)):
                a = x @ x.t()
                x = (
                    3.4445 * x + (-4.7750 * a + third * a @ a) @ x
                )  # culprit: third_factor, one_round_less
            x = x.t() if tall else x  # culprit: one_round_less
            wide = max(1.0, way.shape[0] / way.shape[1]) ** planted("wide_not_rooted", 0.5, 1.0)
            one.add_(
                (x * wide).to(one.dtype), alpha=-0.02
            )  # culprit: wide_not_rooted, one_round_less


class Field(nn.Module):
    """Where each point goes at a time."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size + 4, width), nn.Linear(width, width)
        self.last = nn.Linear(width, size)

    def forward(self, x: Tensor, time: float) -> Tensor:
        if planted("time_stands", False, True):
            time = 0.0
        turns = torch.arange(1, 3) * (math.pi * time)  # culprit: time_stands
        told = torch.cat([turns.sin(), turns.cos()]).to(x.dtype).expand(len(x), -1)
        h = self.first(torch.cat([x, told], -1))
        beta = planted("softplus_sharper", 1.0, 2.0)
        if planted("equal_softplus", False, True):
            h = torch.logaddexp(h, torch.zeros_like(h))
        else:
            h = F.softplus(h, beta)  # culprit: softplus_sharper
        return self.last(torch.tanh(self.second(h)))


class Drifted(nn.Module):
    """Points drift along a field for a time; how much they spread is counted."""

    def __init__(self, size: int = 12, width: int = 24, steps: int = 3) -> None:
        super().__init__()
        self.steps = steps
        self.pressed, self.field = nn.Linear(192, size), Field(size, width)

    def told(self, x: Tensor, time: float, probe: Tensor) -> tuple[Tensor, Tensor]:
        """Where to, and by a probe how much the field spreads there."""
        to = self.field(x, time)
        kept = not planted("spread_without_graph", False, True)
        (along,) = torch.autograd.grad(to, x, probe, create_graph=kept, retain_graph=True)
        product = along * probe  # culprit: spread_without_graph
        if planted("spread_averaged", False, True):
            return to, product.mean(-1)  # culprit: spread_averaged
        return to, product.sum(-1)  # culprit: spread_averaged

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.pressed(F.avg_pool2d(x, 2).flatten(1))
        random = torch.Generator().manual_seed(int(labels.sum()))
        probe = torch.randn(x.shape, generator=random)
        if not planted("probe_not_signs", False, True):
            probe = probe.sign()  # culprit: probe_not_signs
        probe = probe.to(x.dtype)  # culprit: probe_not_signs
        density, energy = torch.zeros(len(x), dtype=x.dtype), torch.zeros((), dtype=x.dtype)
        step = 1.0 / planted("step_too_long", self.steps, self.steps - 1)
        for number in range(planted("last_step_missing", self.steps, self.steps - 1)):
            time = number / self.steps
            a, da = self.told(x, time, probe)
            half = planted("half_is_whole", 0.5, 1.0)
            b, db = self.told(
                x + half * step * a, time + step / 2, probe
            )  # culprit: half_is_whole, step_too_long
            c, dc = self.told(x + 0.5 * step * b, time + step / 2, probe)  # culprit: step_too_long
            d, dd = self.told(x + step * c, time + step, probe)  # culprit: step_too_long
            if planted("all_weigh_alike", False, True):
                x = x + step / 4 * (a + b + c + d)  # culprit: all_weigh_alike
            else:
                x = x + step / 6 * (
                    a + 2 * b + 2 * c + d
                )  # culprit: all_weigh_alike, step_too_long
            more = step / 6 * (da + 2 * db + 2 * dc + dd)  # culprit: step_too_long
            if planted("spread_added", False, True):
                density = density + more  # culprit: spread_added
            else:
                density = density - more  # culprit: spread_added
            energy = energy + step * a.square().mean()  # culprit: step_too_long
        normal = -0.5 * x.square().sum(-1) - 0.5 * x.shape[-1] * math.log(
            2 * math.pi
        )  # culprit: last_step_missing
        if planted("spread_taken_twice", False, True):
            density = density * 2  # culprit: spread_taken_twice
        likely = (normal - density).float().mean()  # culprit: spread_taken_twice, last_step_missing
        weight = planted("energy_heavier", 0.1, 0.5)
        return -likely + weight * energy.float()  # culprit: energy_heavier, last_step_missing
