"""A fifteenth part: boxes without anchors, actors and critics, pictures told by sentences."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type"
# torch is typed in part only.

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Dense(nn.Module):
    """Each layer is told what all layers before found."""

    def __init__(self, start: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(start + n * growth),
                nn.ReLU(),
                nn.Conv2d(start + n * growth, growth, 3, padding=1, bias=False),
            )
            for n in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for number, layer in enumerate(self.layers):
            if number == 1 and planted("newest_first", False, True):
                told = torch.cat(found[::-1], 1)  # culprit: newest_first
            else:
                told = torch.cat(found, 1)  # culprit: newest_first
            found.append(layer(told))
        return torch.cat(found, 1)


class Anchorless(nn.Module):
    """Each place says what it is, how far the sides of its box are, and how central it is."""

    def __init__(self, width: int = 16, classes: int = 4) -> None:
        super().__init__()
        self.classes = classes
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.dense = Dense(8, 4, 2)
        self.less = nn.Conv2d(16, width, 1)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.side, self.merge = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 3, padding=1)
        self.tower = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU()
        )
        self.what, self.where = (
            nn.Conv2d(width, classes, 3, padding=1),
            nn.Conv2d(width, 4, 3, padding=1),
        )
        self.central = nn.Conv2d(width, 1, 3, padding=1)
        self.rates = nn.Parameter(torch.tensor([1.0, 1.2]))

    def levels(self, x: Tensor) -> list[Tensor]:
        x = self.dense(self.stem(x))
        if planted("pooled_by_maximum", False, True):
            x = F.max_pool2d(x, 2)  # culprit: pooled_by_maximum
        else:
            x = F.avg_pool2d(x, 2)  # culprit: pooled_by_maximum
        x = F.relu(self.less(x))
        low = F.relu(self.down(x))
        corners = planted("corners_aligned", False, True)
        up = F.interpolate(
            self.side(low), scale_factor=2, mode="bilinear", align_corners=corners
        )  # culprit: corners_aligned
        return [self.merge(x + up), low]

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        what, where, central, aims, strides = [], [], [], [], []
        for number, level in enumerate(self.levels(x)):
            h = self.tower(level)
            stride = (2, 4)[number]
            what.append(self.what(h).flatten(2).transpose(1, 2))
            rate = self.rates[number]
            if planted("rates_exchanged", False, True):
                rate = self.rates[1 - number]  # culprit: rates_exchanged
            sides = self.where(h) * rate  # culprit: rates_exchanged
            if planted("sides_by_softplus", False, True):
                sides = F.softplus(sides)  # culprit: sides_by_softplus
            else:
                sides = sides.clamp(max=3).exp()  # culprit: sides_by_softplus
            central.append(self.central(h).flatten(1))
            if planted("stride_left_out", False, True) and number:
                where.append(sides.flatten(2).transpose(1, 2))  # culprit: stride_left_out
            else:
                where.append(
                    (sides * stride).flatten(2).transpose(1, 2)
                )  # culprit: stride_left_out
            grid = (torch.arange(16 // stride) + 0.5) * stride
            aims.append(torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).flatten(0, 1))
            strides.append(stride)
        at = torch.cat(aims)
        box = torch.stack([labels % 4, labels // 4, labels % 5 + 8, labels // 3 + 9], -1) + 0.3
        near, far = at - box[:, None, :2], box[:, None, 2:] - at
        truth = torch.cat([near, far], -1)
        inside = truth.amin(-1) > 0
        scores = torch.cat(what, 1).float()
        kind = F.one_hot(labels % self.classes, self.classes)[:, None] * inside[..., None]
        kind = kind.float()
        p = torch.sigmoid(scores)
        gamma = planted("focused_less", 2, 1)
        if planted("equal_missed", False, True):
            missed = F.softplus(scores) - scores * kind
        else:
            missed = F.binary_cross_entropy_with_logits(scores, kind, reduction="none")
        sure = p * kind + (1 - p) * (1 - kind)
        focal = (1 - sure) ** gamma * missed  # culprit: focused_less
        if planted("alpha_turned", False, True):
            weight = 0.25 * (1 - kind) + 0.75 * kind  # culprit: alpha_turned
        else:
            weight = 0.25 * kind + 0.75 * (1 - kind)  # culprit: alpha_turned
        n = inside.sum().clamp(min=1)
        if planted("places_counted", False, True):
            n = torch.tensor(inside.numel())  # culprit: places_counted
        named = (focal * weight).sum() / n  # culprit: alpha_turned, places_counted
        made, true = torch.cat(where, 1).float()[inside], truth[inside]
        both = torch.minimum(made, true)
        common = (both[:, 0] + both[:, 2]) * (both[:, 1] + both[:, 3])
        area = (made[:, 0] + made[:, 2]) * (made[:, 1] + made[:, 3])
        of_true = (true[:, 0] + true[:, 2]) * (true[:, 1] + true[:, 3])
        union = area + of_true - common
        if planted("common_counted_twice", False, True):
            union = area + of_true  # culprit: common_counted_twice
        wide = torch.maximum(made, true)
        hull = (wide[:, 0] + wide[:, 2]) * (wide[:, 1] + wide[:, 3])
        share = common / union  # culprit: common_counted_twice
        if not planted("hull_left_out", False, True):
            share = share - (hull - union) / hull  # culprit: hull_left_out, common_counted_twice
        across, along = true[:, [0, 2]], true[:, [1, 3]]
        middle = across.amin(-1) / across.amax(-1) * (along.amin(-1) / along.amax(-1))
        if not planted("middle_not_rooted", False, True):
            middle = middle.sqrt()  # culprit: middle_not_rooted
        boxes = (
            (1 - share) * middle
        ).sum() / middle.sum()  # culprit: middle_not_rooted, hull_left_out
        found = torch.cat(central, 1).float()[inside]
        return (
            named + boxes + F.binary_cross_entropy_with_logits(found, middle)
        )  # culprit: middle_not_rooted


class Critic(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(20, width), nn.LayerNorm(width)
        self.second, self.out = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        h = F.relu(self.norm(self.first(torch.cat([state, action], -1))))
        return self.out(F.elu(self.second(h)))[:, 0]


class Squashed(nn.Module):
    """An actor with squashed actions, two critics, their former selves, and a temperature."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.encoder = nn.Linear(192, 16)
        self.actor = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, 8))
        self.critics = nn.ModuleList(Critic(width) for _ in range(2))
        self.before = copy.deepcopy(self.critics).requires_grad_(False)
        with torch.no_grad():
            for one in self.before.parameters():
                one.add_(0.02 * torch.randn_like(one))
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))

    def acting(self, state: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(state).chunk(2, -1)
        log_std = torch.tanh(log_std)
        low = planted("spread_wider", -5.0, -2.0)
        log_std = low + 0.5 * (2.0 - low) * (log_std + 1)  # culprit: spread_wider
        raw = mean + noise * log_std.exp()
        if planted("equal_density", False, True):
            log_p = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw)
        else:
            log_p = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        log_p = log_p.sum(-1)
        action = torch.tanh(raw)
        if not planted("squash_not_counted", False, True):
            log_p = log_p - (2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(
                -1
            )  # culprit: squash_not_counted
        return action, log_p

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        random = torch.Generator().manual_seed(int(labels.sum()))
        state = self.encoder(F.avg_pool2d(x, 2).flatten(1))
        later = self.encoder(F.avg_pool2d(x.flip(-1), 2).flatten(1)).detach()
        given = torch.tanh(torch.randn(4, 4, generator=random)).to(x.dtype)
        noise = torch.randn(2, 4, 4, generator=random).to(x.dtype)
        reward, over = torch.randn(4, generator=random).to(x.dtype), (labels % 3 == 0).to(x.dtype)
        alpha = self.log_alpha.exp()
        if not planted("alpha_not_cut", False, True):
            cut = alpha.detach()  # culprit: alpha_not_cut
        else:
            cut = alpha
        with torch.no_grad():
            next_action, next_log_p = self.acting(later, noise[0])
            judges = planted("judged_by_new", self.before, self.critics)
            told = [critic(later, next_action) for critic in judges]  # culprit: judged_by_new
            if planted("judges_averaged", False, True):
                value = (told[0] + told[1]) / 2  # culprit: judges_averaged
            else:
                value = torch.minimum(told[0], told[1])  # culprit: judges_averaged
            if planted("entropy_punished", False, True):
                value = value + cut * next_log_p  # culprit: entropy_punished
            else:
                value = value - cut * next_log_p  # culprit: entropy_punished
            discount = planted("impatient", 0.99, 0.9)
            goes_on = (
                torch.ones_like(over) if planted("end_not_seen", False, True) else 1 - over
            )  # culprit: end_not_seen
            aim = reward + discount * goes_on * value  # culprit: impatient, end_not_seen
        q = [critic(state, given) for critic in self.critics]
        if planted("second_critic_idle", False, True):
            of_critics = F.mse_loss(q[0], aim) * 2  # culprit: second_critic_idle
        elif planted("huber", False, True):
            of_critics = F.smooth_l1_loss(q[0], aim) + F.smooth_l1_loss(q[1], aim)  # culprit: huber
        else:
            of_critics = F.mse_loss(q[0], aim) + F.mse_loss(
                q[1], aim
            )  # culprit: huber, second_critic_idle
        seen = (
            state if planted("state_not_cut", False, True) else state.detach()
        )  # culprit: state_not_cut
        action, log_p = self.acting(seen, noise[1])  # culprit: state_not_cut
        lowest = torch.minimum(
            *(critic(seen, action) for critic in self.critics)
        )  # culprit: state_not_cut
        of_actor = (cut * log_p - lowest).mean()  # culprit: alpha_not_cut
        wanted = planted("entropy_goal", -4.0, -2.0)
        of_alpha = -(alpha * (log_p.detach() + wanted)).mean()  # culprit: entropy_goal
        return of_critics + of_actor + of_alpha


class Pooled(nn.Module):
    """One question asked of all places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.question = nn.Parameter(torch.randn(1, 1, width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(self.question.expand(len(x), -1, -1), x, x, need_weights=False)[0]
        if planted("pool_without_mlp", False, True):
            return y[:, 0]  # culprit: pool_without_mlp
        return (y + self.mlp(self.norm(y)))[:, 0]  # culprit: pool_without_mlp


class Paired(nn.Module):
    """Pictures and sentences, each pair judged alone."""

    def __init__(self, width: int = 32, layers: int = 1) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(0.3 * torch.randn(16, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.pool = Pooled(width)
        self.words = nn.Embedding(64, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, width)
        self.rate, self.bias = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(-2.0))

    def pictured(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        if planted("places_in_columns", False, True):
            x = x.transpose(2, 3)  # culprit: places_in_columns
        x = x.flatten(2).transpose(1, 2) + self.places  # culprit: places_in_columns
        for layer in self.layers:
            x = layer(x)
        return self.pool(x)

    def read(self, labels: Tensor) -> Tensor:
        ids = (labels[:, None] * 7 + torch.arange(6) ** 2) % 64
        y, last = self.reader(self.words(ids))
        if planted("sentence_averaged", False, True):
            told = y.mean(1)  # culprit: sentence_averaged
        else:
            told = last[-1]  # culprit: sentence_averaged
        return self.out(told)  # culprit: sentence_averaged

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        a, b = self.pictured(x), self.read(labels)
        a = F.normalize(a, dim=-1)
        if planted("largest_is_one", False, True):
            b = F.normalize(b, p=1.0, dim=-1)  # culprit: largest_is_one
        else:
            b = F.normalize(b, dim=-1)  # culprit: largest_is_one
        rate = (
            self.rate if planted("rate_not_exp", False, True) else self.rate.exp()
        )  # culprit: rate_not_exp
        s = a @ b.t()
        s = s * rate  # culprit: rate_not_exp
        if not planted("bias_not_added", False, True):
            s = s + self.bias  # culprit: bias_not_added
        sign = 2 * torch.eye(len(s)) - 1
        if planted("others_not_pushed", False, True):
            each = -F.logsigmoid(s.float().diagonal())  # culprit: others_not_pushed
            return each.sum() / len(s)  # culprit: others_not_pushed
        if planted("equal_each", False, True):
            each = F.softplus(-(sign * s.float()))
        else:
            each = -F.logsigmoid(sign * s.float())  # culprit: others_not_pushed, bias_not_added
        if planted("pairs_averaged", False, True):
            return each.mean()  # culprit: pairs_averaged
        return each.sum() / len(s)  # culprit: pairs_averaged
