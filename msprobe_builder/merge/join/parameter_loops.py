"""Loops over the parameters after the last backward pass: gradient norms, clipping, the optimizer.

Each stage goes through its own parameters, chunk by chunk, and often through the matrices of all
of them before the vectors. A single rank goes through the matrices of the whole model first. So
what each stage ran is cut into loops, and of each loop the pieces are put in model order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.merge.join.layers import LayerNumbering, layer_place
from msprobe_builder.merge.ranks.part import StageGraph

_PARAMETERS = Section.PARAMETERS, Section.PARAMETERS_GRAD
_ROUNDS = 8  # from a weight to its moments, to its clipped gradient, to the gradient

Fingerprint = tuple[float, float, float]


class Owner(NamedTuple):
    """The parameter a call works on: its chunk, its place in the stage, its module and size."""

    chunk: int
    place: int
    module: str
    elements: float
    is_matrix: bool


class Order(NamedTuple):
    """How loops run: from the last parameter to the first, and matrices before vectors."""

    is_reverse: bool
    is_sorted: bool

    def goes_on(self, one: Owner, other: Owner) -> bool:
        """Whether the second parameter can follow the first within a loop."""
        way = (one.chunk, one.place), (other.chunk, other.place)
        is_back = way[0] < way[1] if self.is_reverse else way[0] > way[1]
        return not is_back and not (self.is_sorted and one.is_matrix and not other.is_matrix)


@dataclass(frozen=True)
class Run:
    """Siblings of one stage: a loop over parameters, by chunk, or what belongs to no parameter.

    ``of_owner`` has the calls of a loop by the parameter that they work on.
    """

    key: Hashable
    is_loop: bool
    of_chunk: dict[int, list[int]]
    of_owner: dict[Owner, list[int]] = field(default_factory=dict)


def owners(
    stage: StageGraph, number: int, numbering: LayerNumbering, calls: Sequence[int]
) -> dict[int, Owner]:
    """The parameter that each call works on, where it can be told.

    A parameter is recognised by its elements, maximum and minimum, whatever its dtype; what a call
    takes in or puts out together with it belongs to the same one.
    """
    known = _parameters(stage, number, numbering)
    prints = _fingerprints(stage)
    start = np.searchsorted(stage.table.node, np.arange(len(stage.tree) + 1)).tolist()
    tensors = {
        call: [prints[row] for row in range(start[call], start[call + 1]) if row in prints]
        for call in calls
    }
    found: dict[int, Owner] = {}
    for _ in range(_ROUNDS):
        before = len(found)
        for call, keys in tensors.items():
            if call in found:
                continue
            candidates = {owner for key in keys if (owner := known.get(key)) is not None}
            if len(candidates) == 1:
                found[call] = next(iter(candidates))
        for call, owner in found.items():
            for key in tensors[call]:
                if known.setdefault(key, owner) not in (owner, None):
                    known[key] = None  # two parameters have one like it
        if len(found) == before:
            break
    return found


def _parameters(
    stage: StageGraph, number: int, numbering: LayerNumbering
) -> dict[Fingerprint, Owner | None]:
    """Weights and gradients of modules; None where two look alike."""
    table, prints, texts = stage.table, _fingerprints(stage), stage.dump.parameters.texts
    places: dict[str, int] = {}
    known: dict[Fingerprint, Owner | None] = {}
    for row in np.flatnonzero(np.isin(table.section, _PARAMETERS)).tolist():
        name = stage.tree.parsed[int(table.node[row])]
        if name.kind is not Kind.MODULE or row not in prints:
            continue
        stem = name.stem.partition(".parameters_grad")[0]
        renamed = numbering.rename(stem, number)
        layer = layer_place(renamed, numbering.is_chunked)
        path = f"{layer.path}.{layer.number}" if layer else renamed
        place = places.setdefault(f"{numbering.chunk(stem)} {path}", len(places))
        is_matrix = len(parse_shape(texts, int(table.shape_id[row]))) > 1
        owner = Owner(numbering.chunk(stem), place, stem, float(table.numel[row]), is_matrix)
        if known.setdefault(prints[row], owner) != owner:
            known[prints[row]] = None
    return known


def _fingerprints(stage: StageGraph) -> dict[int, Fingerprint]:
    """Of every tensor that can be told from others by its range."""
    table = stage.table
    highest, lowest = table.statistics[0], table.statistics[1]
    rows = np.flatnonzero(table.is_tensor & (table.numel > 1) & (highest > lowest))
    return {
        row: (float(table.numel[row]), float(highest[row]), float(lowest[row]))
        for row in rows.tolist()
    }


def order_of(sequences: Sequence[Sequence[Owner]]) -> Order:
    """How the loops of some stages run, by most of the ways from one parameter to another."""
    ways = [
        (one, other) for sequence in sequences for one, other in pairwise(sequence) if one != other
    ]
    places = [((a.chunk, a.place), (b.chunk, b.place)) for a, b in ways]
    ahead, back = sum(a < b for a, b in places), sum(a > b for a, b in places)
    order = Order(ahead < back, is_sorted=False)
    is_mixed = any(not a.is_matrix and b.is_matrix and order.goes_on(a, b) for a, b in ways)
    return order._replace(is_sorted=not is_mixed)


def runs(
    stage: StageGraph, nodes: Sequence[int], owner: Mapping[int, Owner], order: Order
) -> list[Run]:
    """Cut siblings into loops and what stands between them; nodes with calls below stand alone."""
    result: list[Run] = []
    pending: list[int] = []
    for node in [*nodes, None]:
        if node is None or stage.tree.subtree_end[node] > node:
            result += _cut(stage, pending, owner, order)
            pending = []
            if node is not None:
                result.append(Run(stage.tree.parsed[node], False, {0: [node]}))
        else:
            pending.append(node)
    return result


def _cut(
    stage: StageGraph, nodes: Sequence[int], owner: Mapping[int, Owner], order: Order
) -> list[Run]:
    stems = [stage.tree.parsed[node].stem for node in nodes]
    loops = _loops(
        stems, {place: owner[node] for place, node in enumerate(nodes) if node in owner}, order
    )
    gaps = [
        (_names(stems, loop), stems[one + 1 : other])
        for loop in loops
        for one, other in pairwise(loop)
        if owner[nodes[one]] != owner[nodes[other]]
    ]
    result: list[Run] = []
    reached = 0
    for loop, following_loop in zip(loops, [*loops[1:], [len(nodes)]], strict=False):
        names = _names(stems, loop)
        inner = [gap for loop_names, gap in gaps if loop_names == names]
        lead = stems[reached : loop[0]]
        head = max((_common(lead[::-1], gap[::-1]) for gap in inner), default=0)
        begin = loop[0] - head
        opening = stems[begin : loop[0]][::-1]
        if begin > reached:
            result.append(Run("", False, {0: list(nodes[reached:begin])}))
        of_chunk: dict[int, list[int]] = {}
        of_owner: dict[Owner, list[int]] = {}
        own = owner[nodes[loop[0]]]
        for one, other in pairwise(loop):
            following = owner[nodes[other]]
            border = other
            if following != owner[nodes[one]]:
                border -= _common(stems[one + 1 : other][::-1], opening)
            of_chunk.setdefault(own.chunk, []).extend(nodes[begin:border])
            of_owner.setdefault(own, []).extend(nodes[begin:border])
            begin, own = border, following
        rest = stems[loop[-1] + 1 : following_loop[0]]
        tail = max((_common(rest, gap[: len(gap) - head]) for gap in inner), default=0)
        reached = loop[-1] + 1 + tail
        of_chunk.setdefault(own.chunk, []).extend(nodes[begin:reached])
        of_owner.setdefault(own, []).extend(nodes[begin:reached])
        result.append(Run(names, True, of_chunk, of_owner))
    if reached < len(nodes):
        result.append(Run("", False, {0: list(nodes[reached:])}))
    return result


def _loops(stems: Sequence[str], owner: Mapping[int, Owner], order: Order) -> list[list[int]]:
    """Places of calls with an owner, cut where the order of parameters starts again."""
    loops: list[list[int]] = []
    done: set[Owner] = set()
    last: Owner | None = None
    for place, own in owner.items():
        is_again = own != last and own in done
        if last is None or is_again or not order.goes_on(last, own):
            loops.append([])
            done = set()
        loops[-1].append(place)
        done.add(own)
        last = own
    ends = [-1, *(loop[-1] for loop in loops)]
    starts = [*(loop[0] for loop in loops[1:]), len(stems)]
    return [
        loop
        for loop, before, after in zip(loops, ends, starts, strict=False)
        if len({owner[place] for place in loop}) > 1
        # Of a loop over many parameters a single one was recognised by chance.
        or not {*stems[before + 1 : loop[0]], *stems[loop[-1] + 1 : after]} & _names(stems, loop)
    ]


def _names(stems: Sequence[str], places: Sequence[int]) -> frozenset[str]:
    return frozenset(stems[place] for place in places)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first members are equal."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count
