"""Layer mapping: modules by their place, with paths translated by rules, whatever their class."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.match.calls import (
    Tokens,
    completed,
    moved_calls,
    pair_calls,
    pair_collections,
)
from msprobe_builder.match.outline import Outline
from msprobe_builder.match.places import Path, Place, class_of, place_of
from msprobe_builder.match.rules import Rule
from msprobe_builder.match.translate import Translation, translate

Int = NDArray[np.int64]

_Spot = tuple[Path, Direction]
_Calls = list[tuple[int, int]]  # call number and node


@dataclass(frozen=True)
class Layers:
    """The module calls of one side by place."""

    places: list[Place | None]  # of each node
    classes: dict[Path, set[str]]  # of the modules at a path

    def paths(self) -> list[Path]:
        """All paths in the order in which they first occur."""
        return list(dict.fromkeys(place.path for place in self.places if place is not None))


@dataclass(frozen=True)
class Clash:
    """Two layers of the npu side lead to one of the bench side; the first takes it."""

    taken_by: Path
    lost_by: Path
    bench: Path


@dataclass(frozen=True)
class Mapped:
    """Partner of each npu node, the one it was meant to have, and how the paths were read.

    ``is_named`` marks the nodes that a rule names with the one that it leads to: modules, and calls
    of the operator that a rule ends with.
    """

    partner: Int
    wanted: Int
    is_named: NDArray[np.bool_]
    npu: Layers
    bench: Layers
    translations: dict[Path, Translation]
    clashes: list[Clash]


def layers_of(side: Outline, operators: set[str]) -> Layers:
    """Find out where the modules of one side sit, and the calls of some operators inside them."""
    places = [place_of(name) for name in side.tree.parsed]
    classes: dict[Path, set[str]] = defaultdict(set)
    for place, name in zip(places, side.tree.parsed, strict=True):
        if place is not None and place.direction is not Direction.NONE:
            classes[place.path].add(class_of(name))
    if operators:
        for node in np.flatnonzero(side.kind == Kind.API).tolist():
            name, host = side.tree.parsed[node], places[side.host[node]]
            called = name.stem.rpartition(".")[2]
            if called in operators:
                path = (*(host.path if host is not None else ()), called)
                places[node] = Place(path, name.direction, name.call)
    return Layers(places, dict(classes))


def match_mapped(
    npu: Outline,
    bench: Outline,
    namesake: Int,
    fixed: Int,
    exact: Int,
    operation: Tokens,
    rules: tuple[Rule, ...],
) -> Mapped:
    """Partner of each npu node by layer mapping, around the matches that are fixed.

    Only names count: class, type, shape and number of parameters are ignored.
    """
    layers = layers_of(npu, {rule.npu[-1] for rule in rules})
    bench_layers = layers_of(bench, {rule.bench[-1] for rule in rules})
    paths = layers.paths()
    translations = translate(paths, layers.classes, rules)
    # A rule is an intention; an equal name may be an accident.
    rank = {path: (not translations[path].applied, place) for place, path in enumerate(paths)}
    offered = _by_place(bench_layers.places)
    claims: dict[_Spot, list[tuple[Path, _Calls]]] = defaultdict(list)
    for (path, direction), calls in _by_place(layers.places).items():
        # A call of that name elsewhere is paired with its module.
        if npu.kind[calls[0][1]] == Kind.MODULE or _ends_with_rule(translations[path]):
            claims[translations[path].path, direction].append((path, calls))

    has_no_place = (npu.kind == Kind.MODULE) & [place is None for place in layers.places]
    wanted = np.where(has_no_place, namesake, -1)
    order = np.flatnonzero(has_no_place).tolist()
    clashes = []
    is_named = npu.kind == Kind.MODULE
    for spot in claims:
        if spot not in offered:
            continue
        claimants = sorted(claims[spot], key=lambda claimant: rank[claimant[0]])
        for _, calls in claimants:
            if npu.kind[calls[0][1]] == Kind.API:  # counted by their operators in the whole run
                first, second = sorted(calls), sorted(offered[spot])
                pairs = [(i, j) for (_, i), (_, j) in zip(first, second, strict=False)]
            else:
                pairs = _same_calls(calls, offered[spot])
            for node, other in pairs:
                if npu.kind[node] == bench.kind[other]:
                    wanted[node], is_named[node] = other, True
                    order.append(node)
        clashes += [Clash(claimants[0][0], path, spot[0]) for path, _ in claimants[1:]]

    partner = _first_come(wanted, order, fixed, len(bench))
    partner = pair_calls(npu, bench, partner, exact, [operation])
    moved = moved_calls(npu, bench, partner, namesake)
    partner = completed(partner, namesake, moved, len(bench))
    partner = pair_collections(npu, bench, partner)
    return Mapped(
        partner, wanted, is_named & (partner >= 0), layers, bench_layers, translations, clashes
    )


def _ends_with_rule(translation: Translation) -> bool:
    """Whether a rule gave the last part of a path."""
    return bool(translation.applied) and translation.applied[-1][0] == translation.path


def _first_come(wanted: Int, order: list[int], fixed: Int, size: int) -> Int:
    """``wanted`` where it is still free, in the given order of npu nodes."""
    partner = fixed.copy()
    taken = np.zeros(size, dtype=bool)
    taken[fixed[fixed >= 0]] = True
    for node in order:
        other = wanted[node]
        if other >= 0 and partner[node] < 0 and not taken[other]:
            partner[node] = other
            taken[other] = True
    return partner


def _by_place(places: list[Place | None]) -> dict[_Spot, _Calls]:
    result: dict[_Spot, _Calls] = defaultdict(list)
    for node, place in enumerate(places):
        if place is not None:
            result[place.path, place.direction].append((place.call, node))
    return result


def _same_calls(calls: _Calls, offered: _Calls) -> list[tuple[int, int]]:
    """Pair the calls of two places: by number, or in order where no number is common.

    The numbers differ when one of the dumps began later in the run.
    """
    numbers = {call for call, _ in offered}
    if not any(call in numbers for call, _ in calls):
        return [(i, j) for (_, i), (_, j) in zip(sorted(calls), sorted(offered), strict=False)]
    by_number: dict[int, list[int]] = defaultdict(list)
    for call, node in reversed(offered):
        by_number[call].append(node)
    return [(node, by_number[call].pop()) for call, node in calls if by_number.get(call)]
