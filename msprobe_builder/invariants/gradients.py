"""Replicas update their weights alike, by the mean or the sum of what their passes brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np

from msprobe_builder.base.codes import Kind, Strength
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.calls import communicates
from msprobe_builder.invariants.run import At, Rank, Run, Tensor, classes, majority
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.sketch.definition import FLAT

# Gradients may be reduced in a type of half precision; what is wrong is off by a quarter and more.
_ALONG, _ALIKE = 2.0**-5, 0.1
_FEW = 3
_WHOLE = 1e-3


@dataclass
class _Life:
    """What becomes of a gradient beside a parameter: who writes to it, and who reads it last."""

    writers: list[int] = field(default_factory=list)
    read: Tensor | None = None


class _Scaled(NamedTuple):
    """``times`` is what is read beside the sum of what all passes of all ranks brought."""

    name: str
    node: int
    times: float


def check_updates(run: Run, groups: Iterable[list[int]], found: Found) -> None:
    """Hold the gradients that updates read against each other, and against the passes."""
    for group in groups:
        if len(group) < 2:
            continue
        lives = {rank: _lives(run.ranks[rank]) for rank in group}
        scaled = []
        for name in lives[group[0]]:
            reads = {rank: one[name].read for rank, one in lives.items() if name in one}
            known = {rank: one for rank, one in reads.items() if one is not None}
            if len(known) < len(group) or not _are_replicas(run, group, name):
                continue
            alike = classes(known)
            found.count(Check.UPDATE, is_known=alike is not None)
            if alike is None:
                continue
            if len(set(alike.values())) > 1:
                found.violations += _apart(name, known, alike)
                continue
            times = _times(run, group, name, known[group[0]])
            if times is not None:
                writers = lives[group[0]][name].writers
                node = writers[-1] if writers else known[group[0]].node
                scaled.append(_Scaled(name, node, times))
        found.violations += _scaled_otherwise(scaled, len(group))


def _lives(rank: Rank) -> dict[str, _Life]:
    """The gradients of a rank by the names of their parameters."""
    lives: dict[str, _Life] = {}
    owners: dict[At, str] = {}
    for node in sorted(rank.tensors):
        call = rank.nodes[node]
        if call.kind != Kind.API:
            continue
        writes = is_in_place(call.stem) or communicates(call.stem)
        for one in rank.given(node):
            name = _owner(one, owners)
            if name is None:
                continue
            life = lives.setdefault(name, _Life())
            is_first = one.name == "input.0" or one.name.startswith("input.0.")
            if not (writes and is_first):
                life.read = one
                continue
            life.writers.append(node)
            life.read = None
            owners[one.at] = name
            twin = "output" + one.name.removeprefix("input")
            for other in rank.put_out(node):
                if other.name == twin:
                    owners[other.at] = name
    return lives


def _owner(one: Tensor, owners: Mapping[At, str]) -> str | None:
    if one.maker == Maker.GRADIENT and one.maker_name:
        return without_wrappers(one.maker_name)
    return None if one.made_at is None else owners.get(one.made_at)


def _are_replicas(run: Run, group: Iterable[int], name: str) -> bool:
    """Whether all ranks began with the same weight."""
    weights = {rank: run.ranks[rank].weights.get(name) for rank in group}
    held = {rank: one for rank, one in weights.items() if one is not None}
    alike = classes(held)
    return len(held) == len(weights) and alike is not None and len(set(alike.values())) == 1


def _apart(name: str, reads: Mapping[int, Tensor], alike: dict[int, int]) -> list[Violation]:
    known = majority(alike)
    wrong = list(alike) if known is None else known[1]
    said = (
        fact("gradient_apart", name=name)
        if known is None
        else fact("gradient_apart.some", name=name, ranks=wrong)
    )
    return [
        Violation(
            reads[rank].node, Check.UPDATE, (said,), ranks=() if known is None else tuple(wrong)
        )
        for rank in wrong
    ]


def _times(run: Run, group: Iterable[int], name: str, read: Tensor) -> float | None:
    """How many times the sum of what all ranks' passes brought it is; None if it is none."""
    total = np.zeros(FLAT)
    for rank in group:
        brought = run.ranks[rank].brought.get(name)
        if not brought:
            return None
        for one in brought:
            if one.numbers is None or one.shape != read.shape:
                return None
            total += one.numbers[:FLAT]
    size = float(total @ total)
    if read.numbers is None or not size:
        return None
    own = read.numbers[:FLAT]
    times = float(own @ total) / size
    rest = float(np.linalg.norm(own - times * total))
    return times if times > 0 and rest <= _ALONG * float(np.linalg.norm(own)) else None


def _scaled_otherwise(scaled: list[_Scaled], ranks: int) -> list[Violation]:
    if len(scaled) < _FEW:
        return []
    usual = median(one.times for one in scaled)
    others = [one for one in scaled if abs(one.times / usual - 1) > _ALIKE]
    if len(others) * 2 > len(scaled):
        return []
    if others:
        return [
            Violation(
                one.node,
                Check.UPDATE,
                (
                    fact(
                        "scaled_otherwise", name=one.name, times=float(f"{one.times / usual:.3g}")
                    ),
                ),
                error=abs(one.times / usual - 1),
            )
            for one in others
        ]
    divisor = round(1 / usual)
    if 1 < divisor < ranks and abs(divisor * usual - 1) <= _WHOLE:
        said = fact("divided_by_other", ranks=ranks, divisor=divisor)
        return [Violation(scaled[0].node, Check.UPDATE, (said,), Strength.WEAK)]
    return []
