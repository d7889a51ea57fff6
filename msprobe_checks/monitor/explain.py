"""Where two monitored trainings part, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msprobe_checks.monitor.compare import Departure, MonitorComparison, RankPair

_ALIKE = 1e-3  # relative spread of ratios that are called one factor
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
    lines = [f"Compared  {targets} records of {len(comparison.ranks)} ranks over {steps} steps"]
    lines += [f"Note      {note}" for note in comparison.notes]
    for pair in comparison.ranks:
        lines += _only(pair, "first", pair.only_first) + _only(pair, "second", pair.only_second)
    lines.append(f"Verdict   {verdict(comparison)}")
    early = comparison.earliest
    if early is not None and not _same_place(early, comparison.departures):
        lines.append(
            f"          The first difference at all is at step {early.step}, rank {early.rank}: "
            f"the {_what(early)}, {_relative(early.apart)}."
        )
    return lines


def verdict(comparison: MonitorComparison) -> str:
    """One sentence: the first step and place at which the runs part, and what that means."""
    if not comparison.departures:
        return (
            f"the runs agree within {comparison.tolerance:.3g} at steps {comparison.first_step} "
            f"to {comparison.last_step}."
        )
    first = comparison.departures[0]
    begin = (
        f"the runs part at step {first.step}, rank {first.rank}: the {_what(first)} {_how(first)}"
    )
    return begin + _company(comparison) + f"; {_meaning(comparison)}."


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
    before = comparison.agreeing
    agree = f"{_listed([_WORDS[kind] for kind in before])} of this step agree" if before else ""
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
