"""Where two monitored trainings part, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from msprobe_builder.base.counting import counted
from msprobe_builder.trend.monitor import order_of
from msprobe_checks.monitor.compare import Departure, MonitorComparison, RankPair

_ALIKE = 1e-3  # relative spread of ratios that are called one factor
_ROUNDING = 1e-6  # a norm of float32 is off by less
_GROWTH = 100  # what departs by less than this many times what was there before has grown from it
# What weights that have drifted apart change, so that it is no cause itself.
_FOLLOWS = ("weight", "activation", "local_gradient")
_WORDS = {
    "weight": "weights",
    "activation": "activations",
    "local_gradient": "gradients before reduction",
    "gradient": "gradients before the update",
    "learning_rate": "learning rates",
    "optimizer_state": "optimizer states",
}


def summary_lines(comparison: MonitorComparison) -> list[str]:
    """What was compared, the verdict, and what is known beside it."""
    steps = len({int(step) for pair in comparison.ranks for step in set(pair.step.tolist())})
    targets = sum(len(pair.targets) - len(pair.only_first) for pair in comparison.ranks)
    lines = [
        f"Compared  {counted(targets, 'record')} of {counted(len(comparison.ranks), 'rank')} over "
        f"{counted(steps, 'step')}"
    ]
    lines += [f"Note      {note}" for note in comparison.notes]
    for pair in comparison.ranks:
        lines += _only(pair, "first", pair.only_first) + _only(pair, "second", pair.only_second)
    lines.append(f"Verdict   {verdict(comparison)}")
    early = comparison.earliest
    if early is not None and not _same_place(early, comparison.departures):
        means = "" if comparison.departures else _by_the_update(comparison)
        lines.append(
            f"          The first difference at all is at step {early.step}, rank {early.rank}: "
            f"the {_what(early)}, {_relative(early.apart)}{means and f'; {means}'}."
        )
    return lines


def verdict(comparison: MonitorComparison) -> str:
    """One sentence: the first step and place at which the runs part, and what that means."""
    missing = _without_gradients(comparison)
    resized = _resized(comparison)
    if resized:
        return resized
    if not comparison.departures:
        return (
            f"the runs agree within {comparison.tolerance:.3g} at steps {comparison.first_step} "
            f"to {comparison.last_step}{missing and f', but {missing}'}."
        )
    first = comparison.departures[0]
    begin = (
        f"the runs part at step {first.step}, rank {first.rank}: the {_what(first)} {_how(first)}"
    )
    is_given = first.step == comparison.first_step and first.kind in ("weight", "activation")
    if missing and not is_given:
        return f"{missing}; {begin}{_company(comparison)}."
    return begin + _company(comparison) + f"; {_meaning(comparison)}."


def _without_gradients(comparison: MonitorComparison) -> str:
    """Which run has no gradients of parameters that both have, while the other one has them."""
    for pair in comparison.ranks:
        common = set(pair.targets) - set(pair.only_first)
        known = {name for kind, name in common if kind == "weight"}
        kinds = {kind for kind, _ in common} & {"local_gradient", "gradient"}
        for which, other, targets in (
            ("first", "second", pair.only_second),
            ("second", "first", pair.only_first),
        ):
            names = list(
                dict.fromkeys(name for kind, name in targets if kind in kinds and name in known)
            )
            if names:
                left = len(names) - 1
                more = f" and {counted(left, 'more parameter')}" if left else ""
                return (
                    f"the {which} run has no gradients of {names[0]}{more} on rank {pair.rank} and "
                    f"the {other} has: look at what is frozen, not used or not recorded there"
                )
    return ""


def _resized(comparison: MonitorComparison) -> str:
    """At which step all outputs have another size, should the runs not part before it."""
    found = []
    for pair in comparison.ranks:
        steps, targets, times = pair.resized
        outputs = [place for place, (kind, _) in enumerate(pair.targets) if kind == "activation"]
        of_outputs = np.isin(targets, outputs)
        for step in np.unique(steps[of_outputs]).tolist():
            own = times[of_outputs & (steps == step)]
            is_all = not np.isin(pair.target[pair.step == step], outputs).any()
            if is_all and (own == own[0]).all():
                found.append((step, pair.rank, float(own[0])))
                break
    if not found:
        return ""
    step, rank, factor = min(found)
    if comparison.departures and comparison.departures[0].step < step:
        return ""
    return (
        f"the runs part at step {step}, rank {rank}: {factor:.4g} times as many values as in the "
        "other run pass the model before the optimizer is called; look at the sizes of batches, at "
        "micro-batches, and at updates that were left out."
    )


def _already(comparison: MonitorComparison) -> Departure | None:
    """What differs before the first departure, and not by so much less that it says nothing."""
    first = comparison.departures[0]
    here = order_of((first.kind, first.name))
    found = []
    for pair in comparison.ranks if math.isfinite(first.apart) else ():
        kinds = np.array([order_of(target) for target in pair.targets])[pair.target]
        is_before = (pair.step == first.step) & (kinds < here) | (pair.step == first.step - 1)
        is_large = pair.apart > max(first.apart / _GROWTH, _ROUNDING)
        rows = np.flatnonzero(is_before & is_large)
        found += [pair.departure(row) for row in rows.tolist()]
    return min(found, key=lambda one: (one.step, order_of((one.kind, ""))), default=None)


def _by_the_update(comparison: MonitorComparison) -> str:
    """What it means that weights are the first to differ at all, when one step was equal."""
    early, found = comparison.earliest, comparison.departures
    recorded = {kind for pair in comparison.ranks for kind, _ in pair.targets}
    if (
        early is None
        or "gradient" not in recorded
        or early.kind != "weight"
        or early.step == comparison.first_step
        or early.apart <= _ROUNDING
        or (found and found[0].kind not in _FOLLOWS)
    ):
        return ""
    return (
        f"before step {early.step} everything recorded is equal digit by digit, and then weights "
        f"are not, first {early.name}, {_relative(early.apart)}, so look at the optimizer's own "
        "settings, such as weight decay"
    )


def _what(one: Departure) -> str:
    words = {
        "local_gradient": "gradient before reduction",
        "gradient": "gradient before the update",
    }
    return f"{words.get(one.kind, one.kind.replace('_', ' '))} of {one.name or 'the model'}"


def _how(one: Departure) -> str:
    if one.kind == "learning_rate":
        return f"is {one.first:.6g} against {one.second:.6g}"
    if math.isinf(one.apart):
        return "holds NaN or infinity in one run only"
    if math.isfinite(one.ratio) and abs(one.ratio - 1) > _ALIKE:
        return f"has {one.ratio:.4g} times the other's norm"
    return f"differs, {_relative(one.apart)}"


def _relative(apart: float) -> str:
    return "NaN or infinity in one run only" if math.isinf(apart) else f"relatively {apart:.2g}"


def _company(comparison: MonitorComparison) -> str:
    """How many of the same kind part too, and whether by one factor."""
    first = comparison.departures[0]
    alike = [one for one in comparison.departures if one.kind == first.kind]
    others = len({one.name for one in alike}) - 1
    if not others:
        return ""
    ratios = [one.ratio for one in alike]
    one_factor = all(math.isfinite(r) and abs(r / first.ratio - 1) < _ALIKE for r in ratios)
    same = ", all by that factor" if one_factor and abs(first.ratio - 1) > _ALIKE else ""
    return f", and {others} more {_WORDS[first.kind]} depart at this step{same}"


def _meaning(comparison: MonitorComparison) -> str:
    """What lies between what agrees and what does not."""
    first = comparison.departures[0]
    by_the_update = _by_the_update(comparison)
    if by_the_update:
        return by_the_update
    before = comparison.agreeing
    agree = f"{_listed([_WORDS[kind] for kind in before])} of this step agree" if before else ""
    already = _already(comparison)
    if already is not None:
        return (
            f"before it all agrees within {comparison.tolerance:.3g}, but differs already: at step "
            f"{already.step} the {_what(already)}, {_relative(already.apart)}"
        )
    if first.kind == "learning_rate":
        means = "look at the schedule"
    elif first.kind == "weight" and first.step == comparison.first_step:
        means = "they begin with different weights"
    elif first.kind == "weight":
        means = (
            f"up to the update of step {first.step - 1} nothing recorded departs, "
            "so look at the optimizer's own settings"
        )
    elif first.kind == "activation":
        means = "look at this module and at what it is given, which for the first ones is the data"
    elif first.kind == "local_gradient":
        means = "look at the loss and the backward pass" if "activation" in before else ""
    elif first.kind == "gradient":
        means = (
            "look at what happens between backward and the update: reduction, scaling, clipping"
            if "local_gradient" in before
            else "look at the loss, the backward pass and the reduction"
        )
    else:
        means = "look at the optimizer's own settings"
    return "; ".join(part for part in (agree, means) if part) or "what came before is not recorded"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _same_place(one: Departure, found: Sequence[Departure]) -> bool:
    if not found:
        return False
    first = found[0]
    return (one.step, one.kind, one.name) == (first.step, first.kind, first.name)


def _only(pair: RankPair, which: str, targets: Sequence[tuple[str, str]]) -> list[str]:
    if not targets:
        return []
    shown = ", ".join(f"{kind} of {name}" for kind, name in targets[:3])
    more = f" and {len(targets) - 3} more" if len(targets) > 3 else ""
    return [f"Note      Rank {pair.rank}: only in the {which}: {shown}{more}"]
