"""Modules of one shape that their names put in no order.

A list has an order, and so have ``conv1`` and ``conv2``; names have none, and another author may
call what they stand for the other way round, if one does not need what the other puts out.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.words import first_difference
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def without_order(pairs: Pairs, side: Traits, nodes: Int) -> Bool:
    """Which two of some nodes are such modules, if two authors wrote the sides and no values tell.

    Without calls there is less to see: there only those of which none may need the other.
    """
    if pairs.known.one_code:
        return np.zeros((len(nodes), len(nodes)), dtype=bool)
    return traded_names(side, nodes)


def traded_names(side: Traits, nodes: Int) -> Bool:
    """Which two of some nodes may trade partners where words say so, whoever wrote the sides."""
    return named_apart(side, nodes, only_parallel=not side.below[0].any())


def named_apart(
    side: Traits, nodes: Int, *, only_parallel: bool = False, around: bool = False
) -> Bool:
    """Which two of some nodes, in their order, are modules of one shape with names of no order.

    With ``around`` only those that modules around them tell apart. With ``only_parallel`` no
    normalisations, either: such a module stands beside what takes its result.
    """
    result = np.zeros((len(nodes), len(nodes)), dtype=bool)
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    vectors = side.parameters.are_vectors(nodes)
    extents = side.content[nodes], side.inputs.shapes[nodes], side.outputs.shapes[nodes]
    makes_one = _made_by_weights(side, nodes)
    for place, *extent in zip(range(len(nodes)), *(one.tolist() for one in extents), strict=True):
        operator = int(side.operator[nodes[place]])
        if (operator < 0 or makes_one[place]) and not (only_parallel and vectors[place]):
            groups.setdefault((operator, extent[0], extent[1], extent[2]), []).append(place)
    for group in groups.values():
        for part in _parallel(side, nodes, group) if only_parallel else [group]:
            for one, other in combinations(part, 2):
                apart = _are_apart(side, int(nodes[one]), int(nodes[other]), around=around)
                result[one, other] = result[other, one] = apart
    return result


def told_by_words(pairs: Pairs, a: Int, b: Int) -> Float:
    """What words say of two lists, where no values tell; calls have none."""
    if pairs.known.has_flow and pairs.npu.below[0].any():
        return np.zeros((len(a), len(b)))
    said = pairs.known.words.said(a, pairs.known.other_words, b)
    return np.asarray(said * (pairs.npu.operator[a] < 0)[:, None])


def has_twins(pairs: Pairs, a: Int, b: Int) -> bool:
    """Whether two lists of two authors hold such modules, where no values tell them apart."""
    if pairs.known.one_code:
        return False
    npu = pairs.npu
    modules = a[npu.operator[a] < 0]
    extents = zip(npu.content[modules].tolist(), npu.outputs.shapes[modules].tolist(), strict=True)
    if max(Counter(extents).values(), default=0) < 2:
        return False
    return bool(without_order(pairs, npu, a).any() or without_order(pairs, pairs.bench, b).any())


def _made_by_weights(side: Traits, nodes: Int) -> Bool:
    """Which of some nodes are calls of modules with weights of their own: these tell them apart."""
    host = side.outline.host[nodes]
    return np.asarray((side.operator[nodes] >= 0) & (side.parameters.count[host] > 0))


def _are_apart(side: Traits, one: int, other: int, *, around: bool) -> bool:
    """Whether two modules, or two calls of modules with weights, differ by a name.

    Of activations and their like there are many: only what holds them tells which is which.
    """
    names = side.outline.tree.parsed
    one, other = (
        int(side.outline.host[node]) if side.operator[node] >= 0 else node for node in (one, other)
    )
    place = first_difference(names[one].stem, names[other].stem)
    is_last = place >= names[one].stem.count(".") - 2
    return place >= 0 and not (is_last and (around or not side.parameters_below[1, one] > 0))


def _parallel(side: Traits, nodes: Int, group: list[int]) -> list[list[int]]:
    """The members of a group in parts: what is put out between two parts may go into the later.

    Where a network stands between two modules, which puts out a tensor of the shape that they take
    in, one needs the other.
    """
    parts = [group[:1]]
    for before, place in pairwise(group):
        if _feeds(side, int(nodes[before]), int(nodes[place])):
            parts.append([])
        parts[-1].append(place)
    return parts


def _feeds(side: Traits, one: int, other: int) -> bool:
    """Whether something else between two modules puts out what the later one may take in."""
    tree, names = side.outline.tree, side.outline.tree.parsed
    between = np.arange(int(tree.subtree_end[one]) + 1, other)
    between = between[side.forward[between] & (tree.subtree_end[between] < other)]
    between = between[side.outputs.shapes[between] == side.inputs.shapes[other]]
    between = between[side.outputs.count[between] > 0]
    place = first_difference(names[one].stem, names[other].stem)
    if place < 0:
        return bool(len(between))
    own = {".".join(names[node].stem.split(".")[: place + 2]) + "." for node in (one, other)}
    for node in between.tolist():
        module = node if side.outline.kind[node] == Kind.MODULE else int(side.outline.host[node])
        if not names[module].stem.startswith(tuple(own)):
            return True
    return False
