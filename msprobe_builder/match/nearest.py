"""The nearest node of the other side for nodes without a partner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.match.hashing import Keys, mixed
from msprobe_builder.match.outline import Outline, levels
from msprobe_builder.match.places import Place, place_of

Int = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """A finished matching seen from one side; ``operation`` ids are shared by both sides."""

    own: Outline
    other: Outline
    partner: Int
    back: Int
    operation: Int
    other_operation: Int


@dataclass(frozen=True)
class Nearest:
    """Nearest nodes, -1 without, and how they were found; by node of the own side."""

    node: Int
    same_operation: NDArray[np.bool_]  # the same call inside the partner of the host
    other_class: NDArray[np.bool_]  # a module of another class at the same place


def nearest(view: View, nodes: Int, namesake: Int, known: Int) -> Nearest:
    """Find the nearest free node for each of ``nodes``; ``known`` has those of the others.

    In this order: a module at the same place but of another class; the nearest call of the same
    operation inside the partner of the host; the node of the same name, free or not; what
    stands at the same place between the same matched neighbours. Where the host has no partner
    its own nearest node stands in for one.
    """
    own, other = view.own, view.other
    result = known.copy()
    same_operation = np.zeros(len(own), dtype=bool)
    classes = _other_classes(view, nodes)
    result[nodes] = classes[nodes]
    free = np.flatnonzero(view.back < 0)
    calls = _Groups(mixed(other.host[free], view.other_operation[free]), free)
    other_before = _matched_before(other, view.back)
    slots = _Groups(mixed(other.host[free], other_before[free], _role(other)[free]), free)
    before, role = _matched_before(own, view.partner), _role(own)
    position = _positions(own, view.partner < 0, before, role)

    near = np.where(view.partner >= 0, view.partner, result)
    for level in levels(own.tree.depth, nodes):
        level = level[near[level] < 0]
        host = near[own.host[level]]
        neighbour = np.where(before[level] < 0, -1, view.partner[before[level]])
        found = calls.nearest(
            mixed(host, view.operation[level]), np.where(neighbour < 0, host, neighbour)
        )
        same_operation[level] = found >= 0
        found = np.where(found < 0, namesake[level], found)
        place = slots.at(mixed(host, neighbour, role[level]), position[level])
        near[level] = np.where(found < 0, place, found)
    result[nodes] = near[nodes]
    return Nearest(result, same_operation, classes >= 0)


def _other_classes(view: View, nodes: Int) -> Int:
    """Free modules of the other side at the same place, which then are of another class."""
    result = np.full(len(view.own), -1, dtype=np.int64)
    wanted: dict[Place, int] = {}
    for node in nodes.tolist():
        place = place_of(view.own.tree.parsed[node])
        if place is not None:
            wanted.setdefault(place, node)
    if not wanted:
        return result
    for node in np.flatnonzero(view.back < 0).tolist():
        place = place_of(view.other.tree.parsed[node])
        if place is not None and place in wanted:
            result[wanted.pop(place)] = node
    return result


def _role(side: Outline) -> Int:
    return np.asarray(side.kind * len(Direction) + side.tree.calls.direction)


def _matched_before(side: Outline, partner: Int) -> Int:
    """The nearest matched node before each node in the same host, -1 without."""
    order = np.argsort(side.host, kind="stable")
    index = np.arange(len(order))
    last = np.maximum.accumulate(np.where(partner[order] >= 0, index, -1))
    last = np.r_[-1, last[:-1]]
    host = side.host[order]
    begins = np.r_[True, host[1:] != host[:-1]]
    first = np.maximum.accumulate(np.where(begins, index, 0))
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.where(last >= first, order[last], -1)
    return result


def _positions(side: Outline, is_free: NDArray[np.bool_], before: Int, role: Int) -> Int:
    """How many free nodes of equal role stand between a free node and the one before it."""
    nodes = np.flatnonzero(is_free)
    key = mixed(side.host[nodes], before[nodes], role[nodes])
    order = np.argsort(key, kind="stable")
    _, start, count = np.unique(key[order], return_index=True, return_counts=True)
    result = np.zeros(len(side), dtype=np.int64)
    result[nodes[order]] = np.arange(len(order)) - np.repeat(start, count)
    return result


class _Groups:
    """Nodes by key, ascending within each group."""

    def __init__(self, key: Keys, node: Int) -> None:
        order = np.lexsort((node, key))
        self._node = node[order]
        self._key, self._start, self._count = np.unique(
            key[order], return_index=True, return_counts=True
        )
        self._size = int(node.max(initial=0)) + 1
        group = np.repeat(np.arange(len(self._key)), self._count)
        self._rank = group * self._size + self._node

    def nearest(self, key: Keys, anchor: Int) -> Int:
        """The first node behind ``anchor`` in the group, else the last before it, else -1."""
        if not len(self._node):
            return np.full(len(key), -1, dtype=np.int64)
        group = self._find(key)
        place = np.searchsorted(self._rank, group * self._size + np.minimum(anchor, self._size - 1))
        end = self._start[group] + self._count[group]
        return self._nodes(group, np.minimum(place, end - 1))

    def at(self, key: Keys, position: Int) -> Int:
        """The node at a position of the group, -1 where there is none."""
        if not len(self._node):
            return np.full(len(key), -1, dtype=np.int64)
        group = self._find(key)
        group = np.where(position < self._count[group], group, -1)
        return self._nodes(group, self._start[group] + position)

    def _find(self, key: Keys) -> Int:
        group = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[group] == key, group, -1)

    def _nodes(self, group: Int, place: Int) -> Int:
        result = np.full(len(group), -1, dtype=np.int64)
        known = group >= 0
        result[known] = self._node[place[known]]
        return result
