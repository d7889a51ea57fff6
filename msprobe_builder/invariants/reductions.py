"""What ranks reduce: the sum is the sum of what they gave, the largest the largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.invariants.run import (
    Run,
    Tensor,
    classes,
    given_to,
    is_on_its_way,
    left_by,
    majority,
)
from msprobe_builder.invariants.tolerances import is_summed, of_scaling, of_sum
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.link.calls import Call
from msprobe_builder.link.pairing import Together
from msprobe_builder.sketch.definition import FLAT

Floats = NDArray[np.float64]


class _Reduction(NamedTuple):
    """Where a function takes its terms and puts the result; ``*`` stands for the rank's place."""

    given: str
    result: str
    is_in_parts: bool = False  # a rank takes its own of a list of terms


_REDUCTIONS = {
    "all_reduce": _Reduction("tensor", "tensor"),
    "reduce": _Reduction("tensor", "tensor"),
    "reduce_scatter": _Reduction("input_list", "output", is_in_parts=True),
}


_CHOOSING = ("MAX", "MIN", "PRODUCT")


class _Term(NamedTuple):
    rank: int
    call: Call
    given: Tensor
    result: Tensor | None


def check_reductions(run: Run, together: Sequence[Together], found: Found) -> None:
    """Hold the results of reductions against what the ranks gave."""
    reduced: dict[tuple[int, int], Call] = {}  # where results of sums stand, in the same group
    for group in together:
        name = group.calls[0].name
        if name not in _REDUCTIONS:
            continue
        if len(group.calls) < len(group.members):
            found.count(Check.REDUCTION, is_known=False)
            continue
        if _is_sum(group.calls[0]) and name == "all_reduce":
            again = _reduced_again(run, group, reduced)
            if again is not None:
                found.violations.append(again)
        else:
            found.violations += _no_sum_of_gradients(run, group)
        outcomes = [_check(run, group, name, owner) for owner in _owners(group, name)]
        result = (_REDUCTIONS[name].result, "")
        if any(outcomes) and is_on_its_way(run, [(call, result) for call in group.calls]):
            outcomes = [None]
        found.count(Check.REDUCTION, is_known=None not in outcomes)
        found.violations += [one for each in outcomes if each for one in each]


def _owners(group: Together, name: str) -> Sequence[int | None]:
    """Whose part is reduced: of each rank, or of all."""
    return group.members if _REDUCTIONS[name].is_in_parts else [None]


def _check(run: Run, group: Together, name: str, owner: int | None) -> list[Violation] | None:
    """What does not hold of one reduction; None when it cannot be told."""
    form = _REDUCTIONS[name]
    path = "" if owner is None else str(group.members.index(owner))
    terms = []
    for call in group.calls:
        given = given_to(run, call, (form.given, path))
        is_given = owner in (None, call.rank) and group.root in (None, call.rank)
        result = left_by(run, call, (form.result, "")) if is_given else None
        if given is None or (is_given and result is None):
            return None
        terms.append(_Term(call.rank, call, given, result))
    if len({one.given.shape for one in terms}) > 1:
        return None
    operation = _operation(group.calls[0])
    if operation in ("MAX", "MIN"):
        return _extremes(terms, operation)
    is_told = all(one.given.sketch is not None for one in terms)
    if operation not in ("SUM", "AVG") or not is_told or not is_summed(terms[0].given.dtype):
        return _unlike(terms)
    return _sum(run, terms, len(terms) if operation == "AVG" else 1)


def _sum(run: Run, terms: list[_Term], divisor: int) -> list[Violation] | None:
    results = {one.rank: one.result for one in terms if one.result is not None}
    if any(one.sketch is None for one in results.values()):
        return None  # a sum may leave the range of its type
    total = sum((one.given.flat for one in terms), np.zeros(FLAT)) / divisor
    norms = [one.given.size / divisor for one in terms]
    dtype = terms[0].given.dtype
    allowed = of_sum(norms, dtype) + (of_scaling(norms, dtype) if divisor > 1 else 0.0)
    off = {rank: _length(one.flat - total) for rank, one in results.items()}
    wrong = [rank for rank, distance in off.items() if not distance <= allowed]
    if not wrong or not np.isfinite(allowed):
        return []
    size = _length(total) or max(one.size for one in results.values())
    error = max(off[rank] for rank in wrong) / size
    guilty, said = _explained(run, terms, wrong, total, divisor, allowed)
    accused = guilty or wrong
    evidence = (fact("no_reduction", ranks=len(terms), error=float(f"{error:.2g}")), *said)
    return [
        Violation(
            one.call.node,
            Check.REDUCTION,
            evidence,
            error=error,
            expected=allowed / size,
            ranks=tuple(guilty),
        )
        for one in terms
        if one.rank in accused
    ]


def _explained(
    run: Run, terms: list[_Term], wrong: list[int], total: Floats, divisor: int, allowed: float
) -> tuple[list[int], tuple[Fact, ...]]:
    """Which rank gave something else than it held when the call began, and what."""
    results = {one.rank: one.result for one in terms if one.result is not None}
    if len(wrong) < len(results):
        return wrong, (fact("no_reduction.some", ranks=wrong),)
    if len(set((classes(results) or {0: 0, 1: 1}).values())) > 1:
        return [], (fact("no_reduction.each_other"),)
    shown = next(iter(results.values()))
    found: list[tuple[int, Fact]] = []
    for one in terms:
        own = one.given.flat / divisor
        gave = shown.flat - total + own
        size = float(own @ own)
        times = float(gave @ own) / size if size else 0.0
        if size and _length(gave - times * own) <= 2 * allowed:
            found.append((one.rank, _times(one.rank, times, allowed / size**0.5)))
            continue
        source = _held(run, one, gave * divisor, 2 * allowed * divisor)
        if source is not None:
            found.append((one.rank, fact("gave.other", rank=one.rank, name=source)))
    if len(found) != 1:
        return [], ()
    return [found[0][0]], (found[0][1],)


def _times(rank: int, times: float, precision: float) -> Fact:
    if abs(times) <= 2 * precision:
        return fact("gave.nothing", rank=rank)
    return fact("gave.times", rank=rank, times=float(f"{times:.3g}"))


def _held(run: Run, term: _Term, gave: Floats, allowed: float) -> str | None:
    """The call of a rank that put out, or was given, what it gave instead."""
    rank = run.ranks[term.rank]
    for node, tensors in rank.tensors.items():
        for one in tensors:
            if one.sketch is None or one.shape != term.given.shape or node == term.call.node:
                continue
            if one.size > allowed and _length(one.flat - gave) <= allowed:
                return rank.nodes[node].name
    return None


def _extremes(terms: list[_Term], operation: str) -> list[Violation] | None:
    """The largest of all is the largest of the results, and so the least."""
    is_most = operation == "MAX"
    given = [one.given.largest if is_most else one.given.least for one in terms]
    shown = {
        one.rank: one.result.largest if is_most else one.result.least
        for one in terms
        if one.result is not None
    }
    if None in given or None in shown.values():
        return None
    right = (max if is_most else min)(one for one in given if one is not None)
    return [
        Violation(
            one.call.node,
            Check.REDUCTION,
            (fact("no_extreme", own=shown[one.rank], right=right),),
            ranks=(one.rank,),
        )
        for one in terms
        if one.rank in shown and shown[one.rank] != right and right == right
    ]


def _unlike(terms: list[_Term]) -> list[Violation] | None:
    """All ranks have the same, whatever it is."""
    results = {one.rank: one.result for one in terms if one.result is not None}
    alike = classes(results)
    if alike is None or len(results) < 2:
        return None
    if len(set(alike.values())) < 2:
        return None  # they agree, on what nobody can calculate
    known = majority(alike)
    wrong = list(alike) if known is None else known[1]
    return [
        Violation(
            one.call.node,
            Check.REDUCTION,
            (fact("no_reduction.each_other"),),
            ranks=() if known is None else tuple(wrong),
        )
        for one in terms
        if one.rank in wrong
    ]


def _reduced_again(
    run: Run, group: Together, reduced: dict[tuple[int, int], Call]
) -> Violation | None:
    """A sum over ranks of what the same ranks have summed before, and nothing done in between."""
    before: list[Call] = []
    for call in group.calls:
        given = given_to(run, call, ("tensor", ""))
        made_at = None if given is None else given.made_at
        earlier = None if made_at is None else reduced.get(made_at)
        is_told = given is not None and not given.is_constant  # a barrier may be any sum
        if earlier is not None and is_told and _group(earlier) == _group(call):
            before.append(earlier)
        for leaf in (call.before.get(("tensor", "")), call.after.get(("tensor", ""))):
            if leaf is not None:
                reduced[call.node, leaf.ordinal] = call
    if len(before) < len(group.calls):
        return None
    first = group.calls[0]
    name = run.node(before[0].node).name
    return Violation(first.node, Check.REDUCTION, (fact("reduced_again", name=name),))


def _no_sum_of_gradients(run: Run, group: Together) -> list[Violation]:
    """A gradient of a weight of which the largest or the like is taken."""
    found = []
    for call in group.calls:
        given = given_to(run, call, ("tensor", ""))
        owner = None if given is None else run.ranks[call.rank].owners.get(given.at)
        if owner is not None and owner.kind is Maker.GRADIENT and _operation(call) in _CHOOSING:
            said = fact("no_sum_of_gradients", name=owner.name, operation=_operation(call))
            found.append(Violation(call.node, Check.REDUCTION, (said,)))
    return found


def _group(call: Call) -> str | None:
    return call.arguments.get(("group", ""))


def _operation(call: Call) -> str:
    """``SUM``, unless the call says otherwise."""
    return call.arguments.get(("op", ""), "SUM").rpartition(".")[2].upper()


def _is_sum(call: Call) -> bool:
    return _operation(call) == "SUM"


def _length(numbers: Floats) -> float:
    return float(np.linalg.norm(numbers))
