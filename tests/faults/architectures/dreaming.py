"""An eighteenth part: a world that is dreamed ahead, and words that somebody exchanged."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


def _layer(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, out), nn.LayerNorm(out), nn.SiLU())


class Dreamed(nn.Module):
    """A state of numbers and of chosen classes; what is seen corrects what was expected."""

    def __init__(self, width: int = 32, groups: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.width, self.groups, self.classes = width, groups, classes
        kinds = groups * classes
        self.see = nn.Sequential(_layer(192, width), nn.Linear(width, width))
        self.enter = _layer(kinds + 4, width)
        self.gates = nn.Linear(2 * width, 3 * width, bias=False)
        self.gates_norm = nn.LayerNorm(3 * width)
        self.expect = nn.Sequential(_layer(width, width), nn.Linear(width, kinds))
        self.correct = nn.Sequential(_layer(2 * width, width), nn.Linear(width, kinds))
        self.paint = nn.Sequential(_layer(width + kinds, width), nn.Linear(width, 192))
        self.reward = nn.Linear(width + kinds, 9)
        self.more = nn.Linear(width + kinds, 1)
        self.start = nn.Parameter(0.3 * torch.randn(width))

    def chosen(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities mixed with equal ones, and the likeliest with their gradient."""
        logits = logits.float().unflatten(-1, (self.groups, self.classes))
        shares = torch.softmax(logits, -1)
        if not planted("even_ones_not_mixed", False, True):
            shares = 0.95 * shares + 0.05 / self.classes  # culprit: even_ones_not_mixed
        best = F.one_hot(shares.argmax(-1), self.classes).to(shares.dtype)
        if planted("straight_way_cut", False, True):
            taken = best * 1.0  # culprit: straight_way_cut
        else:
            taken = best + shares - shares.detach()  # culprit: straight_way_cut
        return shares.log(), taken.flatten(-2)  # culprit: even_ones_not_mixed

    def stepped(self, h: Tensor, z: Tensor, action: Tensor) -> Tensor:
        """A gated unit with one normalisation for all gates."""
        joined = torch.cat([z, action], -1)  # culprit: state_not_reset, action_not_reset
        told = self.enter(joined)
        joined = torch.cat([h, told], -1)  # culprit: state_not_reset
        gates = self.gates_norm(self.gates(joined))
        reset, new, update = gates.chunk(3, -1)
        if planted("reset_left_out", False, True):
            new = torch.tanh(new)  # culprit: reset_left_out
        else:
            new = torch.tanh(torch.sigmoid(reset) * new)  # culprit: reset_left_out
        late = planted("update_not_late", 1.0, 0.0)
        update = torch.sigmoid(update - late)  # culprit: update_not_late
        if planted("gate_turned", False, True):
            return update * h + (1 - update) * new  # culprit: gate_turned
        if planted("equal_step", False, True):
            return h + update * (new - h)
        return update * new + (1 - update) * h  # culprit: gate_turned

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        b = len(pictures)
        frames = pictures.unfold(3, 4, 4).permute(3, 0, 1, 2, 4).flatten(2)
        if not planted("seen_not_squeezed", False, True):
            frames = frames.sign() * torch.log1p(frames.abs())  # culprit: seen_not_squeezed
        seen = self.see(frames)  # culprit: seen_not_squeezed
        first = torch.tensor([[1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]]).t()
        actions = F.one_hot((labels[None] + torch.arange(4)[:, None]) % 4, 4).to(frames.dtype)
        h = torch.tanh(self.start).expand(b, -1)
        z = h.new_zeros(b, self.groups * self.classes)
        hs, zs, expected, corrected = [], [], [], []
        for turn in range(4):
            stays = (1 - first[turn])[:, None].to(h.dtype)
            if not planted("state_not_reset", False, True):
                again = torch.tanh(self.start).expand(b, -1)
                h = h * stays + again * (1 - stays)  # culprit: state_not_reset
                z = z * stays  # culprit: state_not_reset
            action = actions[turn]
            if not planted("action_not_reset", False, True):
                action = action * stays  # culprit: action_not_reset
            h = self.stepped(h, z, action)
            before, _ = self.chosen(self.expect(h))
            after, z = self.chosen(self.correct(torch.cat([h, seen[turn]], -1)))
            z = z.to(h.dtype)
            hs.append(h)
            zs.append(z)
            expected.append(before)
            corrected.append(after)
        prior, post = torch.stack(expected), torch.stack(corrected)
        state = torch.cat([torch.stack(hs), torch.stack(zs)], -1)
        if planted("sides_not_cut", False, True):
            fixed = post  # culprit: sides_not_cut
        else:
            fixed = post.detach()  # culprit: sides_not_cut
        known = (fixed.exp() * (fixed - prior)).sum(-1)  # culprit: sides_not_cut
        told = (post.exp() * (post - prior.detach())).sum(-1)
        if planted("free_by_group", False, True):
            known = known.clamp(min=0.4).sum(-1)  # culprit: free_by_group
        else:
            known = known.sum(-1).clamp(min=0.4)  # culprit: free_by_group
        told = told.sum(-1).clamp(min=0.4)
        more, less = planted("balance_exchanged", (0.5, 0.1), (0.1, 0.5))
        apart = more * known.mean() + less * told.mean()  # culprit: balance_exchanged
        painted = self.paint(state)
        missed = (painted - frames).float().square().sum(-1).mean()
        aim = labels[None].float() / 2 + torch.arange(4)[:, None] / 4 - 4
        places = torch.linspace(-3.0, 3.0, 9)
        aim = aim.sign() * torch.log1p(aim.abs())
        under = (places <= aim[..., None]).sum(-1) - 1
        over = under + planted("second_place_same", 1, 0)  # culprit: second_place_same
        near = (aim - places[under]) / 0.75  # culprit: second_place_same
        two = (1 - near[..., None]) * F.one_hot(under, 9) + near[..., None] * F.one_hot(
            over, 9
        )  # culprit: second_place_same
        said = F.log_softmax(self.reward(state).float(), -1)
        rewarded = -(two * said).sum(-1).mean()
        goes_on = 1.0 - first.roll(-1, 0).float()
        ended = F.binary_cross_entropy_with_logits(self.more(state).squeeze(-1).float(), goes_on)
        return 0.02 * missed + apart + rewarded + ended


class Post(nn.Module):
    """Normalised after each sum."""

    def __init__(self, width: int, heads: int, layer: int, who: str) -> None:
        super().__init__()
        self.layer, self.heads, self.who = layer, heads, who
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.feed_norm = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        stays = (torch.arange(width) % 10 != 3).float()
        self.register_buffer("stays", stays)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        layer = self.layer if self.who == "telling" else None
        is_it = self.who == "telling"
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scores = scores / q.shape[-1] ** 0.5
        if is_it and planted("padding_turned", False, True, layer):
            padding = -1e4 - padding  # culprit: padding_turned
        scores = scores + padding  # culprit: padding_turned
        shares = torch.softmax(scores.float(), -1).to(x.dtype)
        if is_it and planted("heads_not_turned_back", False, True, layer):
            y = (shares @ v).reshape(b, n, c)  # culprit: heads_not_turned_back
        else:
            y = (shares @ v).transpose(1, 2).reshape(b, n, c)  # culprit: heads_not_turned_back
        y = self.o(y)
        if is_it and planted("left_out_not_raised", False, True, layer):
            y = y * self.stays  # culprit: left_out_not_raised
        else:
            y = y * self.stays / 0.9  # culprit: left_out_not_raised
        if is_it and planted("norm_before_sum", False, True, layer):
            x = x + self.norm(y)  # culprit: norm_before_sum
        else:
            x = self.norm(x + y)  # culprit: norm_before_sum
        bend = planted("bend_by_tanh", "none", "tanh", layer) if is_it else "none"
        h = F.gelu(self.up(x), approximate=bend)  # culprit: bend_by_tanh
        return self.feed_norm(x + self.down(h))


class Exchanged(nn.Module):
    """A small model guesses words that are hidden, a larger one tells which were exchanged."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.places, self.types = nn.Embedding(20, width), nn.Embedding(2, width)
        self.start_norm = nn.LayerNorm(width, 1e-6)
        self.narrow = nn.Linear(width, width // 2)
        self.guessing = nn.ModuleList([Post(width // 2, 2, 0, "guessing")])
        self.widen = nn.Linear(width // 2, width)
        self.guess_norm = nn.LayerNorm(width, 1e-6)
        self.guess_bias = nn.Parameter(torch.zeros(64))
        self.layers = nn.ModuleList(Post(width, 4, n, "telling") for n in range(layers))
        self.tell, self.told = nn.Linear(width, width), nn.Linear(width, 1)

    def embedded(self, ids: Tensor, who: str) -> Tensor:
        n = ids.shape[1]
        first = planted("places_from_two", 0, 2) if who == "telling" else 0
        at = torch.arange(n) + first  # culprit: places_from_two
        kinds = (torch.arange(n) >= 7).long().expand_as(ids)
        if who == "telling" and planted("one_kind_only", False, True):
            kinds = torch.zeros_like(kinds)  # culprit: one_kind_only
        words = self.words.weight
        if who == "telling" and planted("shared_is_cut", False, True):
            words = words.detach()  # culprit: shared_is_cut
        seen = F.embedding(ids, words)  # culprit: shared_is_cut
        seen = seen + self.types(kinds)  # culprit: one_kind_only
        places = self.places(at)  # culprit: places_from_two
        return self.start_norm(seen + places)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        n = ids.shape[1]
        there = torch.arange(n) < torch.tensor([[n], [n - 3]])
        lowest = -1e4
        padding = ((~there) * lowest)[:, None, None]
        hidden = ((ids + torch.arange(n)) % 3 == 0) & there
        shown = ids.masked_fill(hidden, 1)
        x = self.narrow(self.embedded(shown, "guessing"))
        for layer in self.guessing:
            x = layer(x, padding.to(x.dtype))
        x = self.guess_norm(F.gelu(self.widen(x)))
        guessed = F.linear(x, self.words.weight, self.guess_bias)
        if planted("all_words_guessed", False, True):
            lost = F.cross_entropy(
                guessed.flatten(0, 1).float(), ids.flatten()
            )  # culprit: all_words_guessed
        else:
            lost = F.cross_entropy(
                guessed[hidden].float(), ids[hidden]
            )  # culprit: all_words_guessed
        guess = torch.where(labels.view_as(ids) % 3 == 0, ids, labels.view_as(ids) % 8)
        put = torch.where(hidden, guess, ids)
        if planted("guessed_right_counts", False, True):
            other = hidden  # culprit: guessed_right_counts
        else:
            other = put != ids  # culprit: guessed_right_counts
        y = self.embedded(put, "telling")
        for layer in self.layers:
            y = layer(y, padding.to(y.dtype))
        y = self.told(F.gelu(self.tell(y))).squeeze(-1).float()
        if planted("equal_told", False, True):
            each = F.softplus(y) - y * other.float()
        else:
            each = F.binary_cross_entropy_with_logits(
                y, other.float(), reduction="none"
            )  # culprit: guessed_right_counts
        if planted("padding_told", False, True):
            told = each.mean()  # culprit: padding_told
        else:
            told = (each * there).sum() / there.sum()  # culprit: padding_told
        heavier = planted("telling_light", 5.0, 0.5)
        return lost + heavier * told  # culprit: telling_light
