"""Replicas update their weights alike, by the mean or the sum of what their passes brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from msprobe_builder.base.codes import Kind, Strength
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.calls import communicates
from msprobe_builder.invariants.run import Rank, Run, Tensor, classes, majority
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.sketch.definition import FLAT

_ALONG = 2.0**-5  # gradients may be reduced in a type of half precision
_WHOLE = 2.0**-6  # the same
_FEW = 3


class _Scaled(NamedTuple):
    """``times`` is what is read beside the sum of what all passes of all ranks brought."""

    name: str
    node: int
    times: float


def check_updates(run: Run, groups: Iterable[list[int]], found: Found) -> None:
    """Hold what weights are updated by against other ranks, and against what passes brought."""
    for group in groups:
        if len(group) > 1:
            checked, apart = _written(run, group)
            scaled = _scaled(run, group)
            found.checked[Check.UPDATE] += len(checked | {one.name for one in scaled})
            # Ranks may train by themselves for some steps, and be averaged then.
            is_habit = 2 * len(apart) > len(checked)
            for alike in apart.values():
                found.violations += [
                    replace(one, strength=Strength.WEAK) if is_habit else one for one in alike
                ]
            found.violations += _scaled_otherwise(scaled, len(group))


def _written(run: Run, group: Sequence[int]) -> tuple[set[str], dict[str, list[Violation]]]:
    """Calls that write to a weight that all hold alike: what else they are given is alike, too.

    The weights that were looked at, and where some are updated by what differs.
    """
    checked: set[str] = set()
    wrong: dict[str, list[Violation]] = {}
    first = run.ranks[group[0]]
    for node in sorted(first.tensors):
        call = first.nodes[node]
        if call.kind != Kind.API or not is_in_place(call.stem):
            continue
        nodes = {rank: run.ranks[rank].by_name.get(call.name) for rank in group}
        if None in nodes.values():
            continue
        given = {rank: run.ranks[rank].given(at) for rank, at in nodes.items() if at is not None}
        for one in first.given(node):
            owner = first.owners.get(one.at)
            if owner is None or owner.kind is not Maker.PARAMETER or not one.is_written:
                continue
            if owner.name in wrong or not _have_alike(one, given):
                continue
            suffix = one.name.removeprefix("input.0")
            for name in [each.name for each in first.given(node)]:
                if name == one.name or not name.endswith(suffix) or not _is_beside(name, suffix):
                    continue
                alike = _classes_of(name, one, given)
                if alike is None:
                    continue
                checked.add(owner.name)
                if len(set(alike.values())) > 1:
                    wrong[owner.name] = _apart(owner.name, nodes, alike)
                    break
    return checked, wrong


def _is_beside(name: str, suffix: str) -> bool:
    """Whether it is an argument, or an element of a list at the place of ``suffix``."""
    return name.removeprefix("input.").removesuffix(suffix).isdecimal()


def _have_alike(one: Tensor, given: Mapping[int, Sequence[Tensor]]) -> bool:
    alike = _classes_of(one.name, one, given)
    return alike is not None and len(set(alike.values())) == 1


def _classes_of(
    name: str, like: Tensor, given: Mapping[int, Sequence[Tensor]]
) -> dict[int, int] | None:
    """By rank which of the different tensors it is given there; None where that is not known."""
    held = {
        rank: one
        for rank, tensors in given.items()
        for one in tensors
        if one.name == name and one.shape == like.shape
    }
    return classes(held) if len(held) == len(given) else None


def _apart(name: str, nodes: Mapping[int, int | None], alike: dict[int, int]) -> list[Violation]:
    known = majority(alike)
    wrong = list(alike) if known is None else known[1]
    said = (
        fact("update_apart", name=name)
        if known is None
        else fact("update_apart.some", name=name, ranks=wrong)
    )
    ranks = () if known is None else tuple(wrong)
    return [
        Violation(node, Check.UPDATE, (said,), ranks=ranks)
        for rank, node in nodes.items()
        if rank in wrong and node is not None
    ]


def _scaled(run: Run, group: Sequence[int]) -> list[_Scaled]:
    """How large gradients are that all ranks have alike, by the names of their parameters."""
    lives = {rank: _lives(run.ranks[rank]) for rank in group}
    result = []
    for name, (node, _) in lives[group[0]].items():
        reads = {rank: one[name][1] for rank, one in lives.items() if name in one}
        if len(reads) < len(group):
            continue
        alike = classes(reads)
        if alike is None or len(set(alike.values())) > 1:
            continue
        times = _times(run, group, name, reads[group[0]])
        if times is not None:
            result.append(_Scaled(name, node, times))
    return result


def _lives(rank: Rank) -> dict[str, tuple[int, Tensor]]:
    """Of each gradient the call that wrote to it last, and what was read behind that."""
    writers: dict[str, int] = {}
    result: dict[str, tuple[int, Tensor]] = {}
    for node in sorted(rank.tensors):
        call = rank.nodes[node]
        writes = is_in_place(call.stem) or communicates(call.stem)
        for one in rank.given(node) if call.kind == Kind.API else ():
            owner = rank.owners.get(one.at)
            if owner is None or owner.kind is not Maker.GRADIENT:
                continue
            if writes and one.is_written:
                writers[owner.name] = node
                result.pop(owner.name, None)
            else:
                result[owner.name] = writers.get(owner.name, node), one
    return result


def _times(run: Run, group: Iterable[int], name: str, read: Tensor) -> float | None:
    """How many times the sum of what all ranks' passes brought it is; None if it is none."""
    total = np.zeros(FLAT)
    for rank in group:
        brought = run.ranks[rank].brought.get(name)
        if not brought:
            return None
        for one in brought:
            if one.sketch is None or one.shape != read.shape:
                return None
            total += one.flat
    size = float(total @ total)
    if read.sketch is None or not size:
        return None
    own = read.flat
    times = float(own @ total) / size
    rest = float(np.linalg.norm(own - times * total))
    return times if times > 0 and rest <= _ALONG * float(np.linalg.norm(own)) else None


def _scaled_otherwise(scaled: list[_Scaled], ranks: int) -> list[Violation]:
    if len(scaled) < _FEW:
        return []
    usual = median(one.times for one in scaled)
    # A program may scale the gradients of some weights, but hardly by the number of ranks.
    others = [one for one in scaled if _is_times(one.times / usual, ranks)]
    if len(others) * 2 > len(scaled):
        return []
    if others:
        return [_otherwise(one, usual) for one in others]
    divisor = round(1 / usual)
    if 1 < divisor < ranks and abs(divisor * usual - 1) <= _WHOLE:
        said = fact("divided_by_other", ranks=ranks, divisor=divisor)
        return [Violation(scaled[0].node, Check.UPDATE, (said,), Strength.WEAK)]
    return []


def _otherwise(one: _Scaled, usual: float) -> Violation:
    times = one.times / usual
    said = fact("scaled_otherwise", name=one.name, times=float(f"{times:.3g}"))
    return Violation(one.node, Check.UPDATE, (said,), error=abs(times - 1))


def _is_times(times: float, ranks: int) -> bool:
    return abs(max(times, 1 / times) / ranks - 1) <= _WHOLE
