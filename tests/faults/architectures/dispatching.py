"""A twentieth part: experts with room for few words, and the words after the next."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Dispatching(nn.Module):
    """Words are sorted by their experts, who have room for few, and put back."""

    bias: Tensor

    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.layer, self.experts, self.inner = layer, experts, width
        self.router = nn.Parameter(torch.randn(experts, width) / width**0.5)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, width, width) / width**0.5)
        self.register_buffer("bias", 0.2 * torch.randn(experts))
        self.register_buffer("load", torch.zeros(experts))
        self.common = nn.Linear(width, width)
        self.common_gate = nn.Linear(width, 1)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Who takes each word, how much that counts, and how evenly they are kept busy."""
        scores = F.linear(x.float(), self.router.float())
        if planted("scores_shared_out", False, True, self.layer):
            scores = scores.softmax(-1)  # culprit: scores_shared_out
        else:
            scores = scores.sigmoid()  # culprit: scores_shared_out
        choice = scores + self.bias.float()
        chosen = choice.topk(2, -1).indices
        if planted("weights_biased", False, True, self.layer):
            weights = choice.gather(-1, chosen)  # culprit: weights_biased
        else:
            weights = scores.gather(-1, chosen)  # culprit: weights_biased
        if not planted("weights_not_to_one", False, True, self.layer):
            total = weights.sum(-1, keepdim=True)
            weights = weights / (total + 1e-20)  # culprit: weights_not_to_one
        weights = weights * 2.5  # culprit: weights_not_to_one
        picked = F.one_hot(chosen, self.experts).sum(1).float()
        self.load += picked.sum(0)
        if planted("evenness_by_word", False, True, self.layer):
            busy = picked.mean(-1, keepdim=True)  # culprit: evenness_by_word
        else:
            busy = picked.mean(0, keepdim=True)  # culprit: evenness_by_word
        of_all = scores / scores.sum(-1, keepdim=True)
        even = (busy * of_all.mean(0, keepdim=True)).sum(-1).mean()  # culprit: evenness_by_word
        return chosen, weights, even * self.experts

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        chosen, weights, even = self.routed(x)
        out = self.one_by_one(x, chosen, weights)
        common = self.common(x)
        if not planted("common_not_gated", False, True, self.layer):
            common = common * self.common_gate(x).sigmoid()  # culprit: common_not_gated
        return out + common, even  # culprit: common_not_gated

    def one_by_one(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Sorted by expert, cut to the room there is, multiplied, and added where they were."""
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=self.experts)
        if planted("words_by_rest", False, True, self.layer):
            word = order % len(x)  # culprit: words_by_rest
        else:
            word = order // 2  # culprit: words_by_rest
        whose = flat[order]
        begins = counts.cumsum(0) - counts
        place = torch.arange(len(flat)) - begins[whose]
        room = 2 * len(x) // self.experts
        room = planted("room_one_less", room, room - 1, self.layer)
        fits = place < room  # culprit: room_one_less
        share = weights.flatten()
        if not planted("weights_not_sorted", False, True, self.layer):
            share = share[order]  # culprit: weights_not_sorted
        if not planted("full_is_full", False, True, self.layer):
            share = share * fits.float()  # culprit: full_is_full
        taken = x[word]
        parts = []
        for number, part in enumerate(taken.split(counts.tolist())):
            whole = part @ self.up[number]
            gate, up = whole.chunk(2, -1)
            if planted("gate_and_up_exchanged", False, True, self.layer):
                gate, up = up, gate
            bent = F.silu(gate) * up  # culprit: gate_and_up_exchanged
            at = number
            if planted("down_of_next", False, True, self.layer):
                at = (number + 1) % self.experts
            down = self.down[at]  # culprit: down_of_next
            parts.append(bent @ down)  # culprit: down_of_next
        done = torch.cat(parts)
        if planted("equal_return", False, True, self.layer):
            done = (done * share[:, None].to(x.dtype))[order.argsort()]
            return done.view(len(x), 2, -1).sum(1)
        done = done * share[:, None].to(x.dtype)  # culprit: weights_not_sorted, full_is_full
        return torch.zeros_like(x).index_add(0, word, done)


class DispatchedLayer(nn.Module):
    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.moe = Dispatching(width, experts, layer)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        y, even = self.moe(self.norm_2(x).flatten(0, 1))
        return x + y.view_as(x), even


class Dispatched(nn.Module):
    """A trunk that foretells the next word, and a block behind it the word after that."""

    def __init__(self, width: int = 24, layers: int = 2, experts: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(DispatchedLayer(width, experts, n) for n in range(layers))
        self.norm = nn.RMSNorm(width, 1e-6)
        self.norm_words = nn.RMSNorm(width, 1e-6)
        self.norm_trunk = nn.RMSNorm(width, 1e-6)
        self.joined = nn.Linear(2 * width, width, bias=False)
        self.after = DispatchedLayer(width, experts, 9)
        self.head = nn.Linear(width, 64, bias=False)
        for n, one in enumerate(self.stepped()):
            self.register_buffer(f"first{n}", 1e-4 * torch.randn_like(one))
            self.register_buffer(f"second{n}", 1e-6 + 1e-6 * torch.rand_like(one))

    def stepped(self) -> list[nn.Parameter]:
        return [one.out.weight for one in self.layers]

    def further(self, trunk: Tensor, ids: Tensor) -> Tensor:
        """What the trunk says of a word, joined with the word that comes next."""
        if planted("trunk_cut_off", False, True):
            trunk = trunk.detach()  # culprit: trunk_cut_off
        said = self.norm_trunk(trunk[:, :-1])
        shift = planted("next_is_this", 1, 0)
        words = self.words(ids[:, shift : ids.shape[1] - 1 + shift])  # culprit: next_is_this
        norm = self.norm_words
        if planted("norm_of_trunk", False, True):
            norm = self.norm_trunk
        words = norm(words)  # culprit: norm_of_trunk
        pair = (said, words)
        if planted("joined_other_way", False, True):
            pair = (words, said)
        if planted("equal_join", False, True):
            width = said.shape[-1]
            weight = self.joined.weight
            return F.linear(said, weight[:, :width]) + F.linear(words, weight[:, width:])
        return self.joined(torch.cat(pair, -1))  # culprit: joined_other_way

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids)
        evenness = []
        for layer in self.layers:
            x, even = layer(x)
            evenness.append(even)
        logits = self.head(self.norm(x)).float()
        aims = labels.view_as(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), aims.flatten())
        y, even = self.after(self.further(x, ids))
        later = self.head(self.norm(y)).float()
        shift = planted("after_is_next", 1, 0)
        after = aims[:, shift : aims.shape[1] - 1 + shift]  # culprit: after_is_next
        if planted("equal_named", False, True):
            said = later.log_softmax(-1).gather(-1, after[..., None])
            ahead = -said.mean()
        else:
            ahead = F.cross_entropy(later.flatten(0, 1), after.flatten())  # culprit: after_is_next
        share = planted("ahead_counts_less", 0.3, 0.1)
        loss = loss + share * ahead  # culprit: ahead_counts_less
        return (loss + 1e-2 * (sum(evenness) + even)) / 2

    @torch.no_grad()
    def update(self) -> None:
        """A bounded step of AdamW, and what the experts' bias learns of their load."""
        grads = [one.grad.float() for one in self.stepped()]
        size = torch.stack([one.norm() for one in grads]).norm()
        for n, (one, grad) in enumerate(zip(self.stepped(), grads, strict=True)):
            if planted("bounded_each", False, True):
                size = grad.norm()  # culprit: bounded_each
            grad = grad * (1e-2 / (size + 1e-6)).clamp(max=1.0)  # culprit: bounded_each
            first, second = getattr(self, f"first{n}"), getattr(self, f"second{n}")
            if planted("decay_in_gradient", False, True):
                grad = grad + 0.1 * one.float()  # culprit: decay_in_gradient
            before = first.clone()
            first.lerp_(grad.to(first.dtype), 0.1)  # culprit: decay_in_gradient
            second.mul_(0.95).addcmul_(grad.to(second.dtype), grad.to(second.dtype), value=0.05)
            if planted("moment_of_before", False, True):
                first = before
            if planted("epsilon_in_root", False, True):
                by = (second.float() / (1 - 0.95**5) + 1e-5).sqrt()  # culprit: epsilon_in_root
            else:
                by = (second.float() / (1 - 0.95**5)).sqrt() + 1e-5  # culprit: epsilon_in_root
            step = first.float() / (1 - 0.9**5) / by  # culprit: moment_of_before
            if not planted("decay_in_gradient", False, True):
                one.mul_(1 - 1e-3)  # culprit: decay_in_gradient
            one.sub_((1e-2 * step).to(one.dtype))
        for layer in self.layers:
            load = layer.moe.load.float()
            off = load.mean() - load
            if planted("bias_other_way", False, True):
                off = load - load.mean()  # culprit: bias_other_way
            layer.moe.bias.add_(off.sign().to(layer.moe.bias.dtype), alpha=1e-2)
