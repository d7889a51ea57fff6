"""Nodes in pre-order: parents before children, the children of one in their own order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Node = TypeVar("Node")
_DEEPEST = 1000  # levels that are worked out as columns


def preorder(
    root: Node, top: Sequence[Node], children: Callable[[Node], Sequence[Node]]
) -> tuple[list[Node], list[int]]:
    """``root`` and all nodes below it, parents before children, and the parent of each."""
    nodes, parent = [root], [-1]
    pending = [(node, 0) for node in reversed(top)]
    while pending:
        node, above = pending.pop()
        index = len(nodes)
        nodes.append(node)
        parent.append(above)
        pending.extend([(child, index) for child in reversed(children(node))])
    return nodes, parent


def extents(parent: list[int]) -> tuple[Int, Int]:
    """Last index of each subtree and depth of each node."""
    end = list(range(len(parent)))
    depth = [0] * len(parent)
    for index in range(1, len(parent)):
        depth[index] = depth[parent[index]] + 1
    for index in range(len(parent) - 1, 0, -1):
        if end[index] > end[parent[index]]:
            end[parent[index]] = end[index]
    return np.array(end, dtype=np.int64), np.array(depth, dtype=np.int64)


def ordered(parent: Int, place: Int) -> tuple[Int, Int, Int, Int]:
    """Nodes below a root in pre-order: which they are, their parents, last below, and depths.

    ``parent`` is -1 of the children of the root; siblings are in the order of their ``place``. The
    first element is the root, which is -1 among the nodes; parents and ends are places in the
    result. No node may be below itself.
    """
    by_place = np.argsort(place, kind="stable")
    below = by_place[np.argsort(parent[by_place], kind="stable")]  # children of each together
    first = np.searchsorted(parent[below], np.arange(-1, len(parent) + 1))  # of -1, 0, 1 …
    levels = [below[: first[1]]]
    while len(levels[-1]) and len(levels) <= _DEEPEST:
        begin, end = first[levels[-1] + 1], first[levels[-1] + 2]
        levels.append(below[_ranges(begin, end)])
    if len(levels[-1]):
        return _one_by_one(below, first)
    size = np.ones(len(parent) + 1, dtype=np.int64)  # the last is the root
    for level in reversed(levels):
        np.add.at(size, parent[level], size[level])
    where, depth = np.zeros_like(size), np.zeros_like(size)
    for number, level in enumerate(levels, 1):
        above = parent[level]
        before = np.cumsum(size[level]) - size[level]
        begins = np.r_[True, above[1:] != above[:-1]][: len(level)]
        before -= np.maximum.accumulate(np.where(begins, before, 0))
        where[level] = where[above] + 1 + before
        depth[level] = number
    nodes = np.empty_like(size)
    nodes[where] = np.r_[np.arange(len(parent)), -1]
    parents = where[np.r_[parent, -1][nodes]]
    parents[0] = -1
    return nodes, parents, np.arange(len(size)) + size[nodes] - 1, depth[nodes]


def _ranges(begin: Int, end: Int) -> Int:
    """All numbers of each range, one range after the other."""
    count = end - begin
    shift = np.cumsum(count) - count
    return np.repeat(begin - shift, count) + np.arange(int(count.sum()))


def _one_by_one(below: Int, first: Int) -> tuple[Int, Int, Int, Int]:
    """The same where each level has but few nodes."""
    children, begin = below.tolist(), first.tolist()
    nodes, parent = preorder(
        -1,
        children[: begin[1]],
        lambda node: children[begin[node + 1] : begin[node + 2]],
    )
    end, depth = extents(parent)
    return np.array(nodes), np.array(parent), end, depth
