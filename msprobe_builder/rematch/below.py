"""Which nodes below two matched nodes belong together: by name, operator, order and shape."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.sequence import fill_gaps, longest_increasing
from msprobe_builder.database.read.graphs import BENCH, NPU
from msprobe_builder.database.read.matches import matches_between
from msprobe_builder.database.read.tree import read_subtree
from msprobe_builder.database.write.texts import StoredTexts
from msprobe_builder.dump.names import Kind, Name, module_path
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.hashing import mixed, same_ids
from msprobe_builder.match.signature import (
    Signatures,
    agreeing,
    equal_counts,
    shape_keys,
    signatures,
)
from msprobe_builder.rematch.graphs import GraphPair
from msprobe_builder.rematch.parts import Part, load_part

Int = NDArray[np.int64]

_NONE, _OTHER_NONE = -1, -2  # tokens that equal nothing on the other side
_TOP = 1  # place of the two nodes themselves, behind the root of their part


@dataclass(frozen=True)
class _Tokens:
    """Columns of both sides; equal values may be paired."""

    npu: Int
    bench: Int


@dataclass(frozen=True)
class _Clues:
    """What speaks for a pair, the strongest first."""

    name_and_shapes: _Tokens
    name: _Tokens  # shapes must agree as far as both have parameters
    class_and_shapes: _Tokens  # modules only
    kind: _Tokens  # modules only; shapes must agree as far as they are known
    attribute: _Tokens  # modules only, whatever their class; likewise
    shapes: _Tokens  # modules only, whatever their name: what stands in the same place


def pairs_below(
    connection: sqlite3.Connection, pair: GraphPair, npu: int, bench: int, *, replace: bool
) -> list[tuple[int, int]]:
    """Pairs of nodes below two nodes, parents before children.

    Children of paired nodes are aligned in order of execution, first by name, then modules by
    class, by attribute and by shapes alone. Pairs that exist are kept; nodes matched elsewhere
    take part only with ``replace``.
    """
    texts = StoredTexts(connection)
    left = load_part(connection, pair.npu, read_subtree(connection, npu), texts)
    right = load_part(connection, pair.bench, read_subtree(connection, bench), texts)
    known, npu_free, bench_free = _matched(connection, left, right, replace)
    trees = left.side.tree, right.side.tree
    signs = (
        signatures(left.side.table, len(left.nodes)),
        signatures(right.side.table, len(right.nodes)),
    )
    clues = _clues(*trees, *signs)
    found: list[tuple[int, int]] = []
    waiting = [(_TOP, _TOP)]
    while waiting:
        i, j = waiting.pop()
        a, b = _children(trees[0], i), _children(trees[1], j)
        inside = np.isin(known[a], b)
        a = a[inside | npu_free[a]]
        b = b[np.isin(b, known[a]) | bench_free[b]]
        children = _align(clues, *signs, a, b, known)
        found += children
        waiting += children
    ids = left.nodes.tolist(), right.nodes.tolist()
    return sorted((ids[0][i], ids[1][j]) for i, j in found)


def _matched(
    connection: sqlite3.Connection, npu: Part, bench: Part, replace: bool
) -> tuple[Int, NDArray[np.bool_], NDArray[np.bool_]]:
    """Partner of each npu node inside the other part, and which nodes of both sides are free."""
    known = np.full(len(npu.nodes), -1, dtype=np.int64)
    npu_free = np.ones(len(npu.nodes), dtype=bool)
    bench_free = np.ones(len(bench.nodes), dtype=bool)
    for side, part, free in ((NPU, npu, npu_free), (BENCH, bench, bench_free)):
        first, last = int(part.nodes[_TOP]), int(part.nodes[-1])
        rows = matches_between(connection, side, first, last)
        if rows:
            own = np.array(rows, dtype=np.int64)[:, side]
            free[np.searchsorted(part.nodes, own)] = False
        if part is npu:
            for one, other in rows:
                if bench.nodes[_TOP] <= other <= bench.nodes[-1]:
                    known[np.searchsorted(npu.nodes, one)] = np.searchsorted(bench.nodes, other)
    if replace:
        npu_free[:] = True
        bench_free[:] = True
    return known, npu_free, bench_free


def _children(tree: Tree, node: int) -> Int:
    result = []
    child = node + 1
    while child <= tree.subtree_end[node]:
        result.append(child)
        child = int(tree.subtree_end[child]) + 1
    return np.array(result, dtype=np.int64)


def _align(
    clues: _Clues, npu: Signatures, bench: Signatures, a: Int, b: Int, known: Int
) -> list[tuple[int, int]]:
    """Pairs among the children ``a`` and ``b``: those known, then by one clue after the other."""
    place = {node: position for position, node in enumerate(b.tolist())}
    x = np.array([at for at, node in enumerate(a.tolist()) if known[node] in place], np.int64)
    y = np.array([place[known[node]] for node in a[x].tolist()], np.int64)
    apart = list(zip(a[x].tolist(), b[y].tolist(), strict=True))
    in_order = longest_increasing(y)
    used_a, used_b = set(x.tolist()), set(y.tolist())
    x, y = x[in_order], y[in_order]
    for tokens, is_kept in (
        (clues.name_and_shapes, None),
        (clues.name, agreeing),
        (clues.class_and_shapes, None),
        (clues.kind, _may_be_equal),
        (clues.attribute, _may_be_equal),
        (clues.shapes, None),
    ):
        own, other = tokens.npu[a], tokens.bench[b]
        own[list(used_a)], other[list(used_b)] = _NONE, _OTHER_NONE
        more_x, more_y = fill_gaps(own, other, x, y)
        is_new = ~np.isin(more_x, x)
        new_x, new_y = more_x[is_new], more_y[is_new]
        if is_kept is not None:
            agrees = is_kept(npu, bench, a[new_x], b[new_y])
            new_x, new_y = new_x[agrees], new_y[agrees]
        used_a |= set(new_x.tolist())
        used_b |= set(new_y.tolist())
        apart += zip(a[new_x].tolist(), b[new_y].tolist(), strict=True)
        order = np.argsort(np.r_[x, new_x])
        x, y = np.r_[x, new_x][order], np.r_[y, new_y][order]
    left = [node for place, node in enumerate(a.tolist()) if place not in used_a]
    right = [node for place, node in enumerate(b.tolist()) if place not in used_b]
    return apart + _out_of_order(clues, npu, bench, left, right)


def _out_of_order(
    clues: _Clues, npu: Signatures, bench: Signatures, a: list[int], b: list[int]
) -> list[tuple[int, int]]:
    """What is left and equal in name and shapes, wherever it stands: backward calls move."""
    found: dict[int, int] = {}
    for tokens, is_kept in ((clues.name_and_shapes, None), (clues.name, _may_be_equal)):
        free: dict[int, list[int]] = {}
        for node in sorted(set(b) - set(found.values())):
            free.setdefault(int(tokens.bench[node]), []).append(node)
        for node in a:
            same = free.get(int(tokens.npu[node]))
            if node in found or not same:
                continue
            one = np.full(len(same), node)
            fits = np.ones(1, bool) if is_kept is None else is_kept(npu, bench, one, np.array(same))
            if fits.any():
                found[node] = same.pop(int(fits.argmax()))
    return list(found.items())


def _may_be_equal(npu: Signatures, bench: Signatures, i: Int, j: Int) -> NDArray[np.bool_]:
    """Whether two nodes have as many parameters, of shapes that do not contradict each other."""
    return equal_counts(npu, bench, i, j) & agreeing(npu, bench, i, j)


def _clues(npu: Tree, bench: Tree, npu_signs: Signatures, bench_signs: Signatures) -> _Clues:
    ids: dict[Hashable, int] = {}
    columns = [
        np.array(
            [
                [
                    ids.setdefault(what, len(ids))
                    for what in (_local_name(tree, node), _class(name), _attribute(name))
                ]
                for node, name in enumerate(tree.parsed)
            ],
            dtype=np.int64,
        ).T
        for tree in (npu, bench)
    ]
    (name, kind, attribute), (other_name, other_kind, other_attribute) = columns
    shapes = shape_keys(npu_signs).astype(np.int64), shape_keys(bench_signs).astype(np.int64)
    by_class = same_ids(mixed(kind, shapes[0]), mixed(other_kind, shapes[1]))
    way, other_way = (
        np.array([ids.setdefault(one.direction, len(ids)) for one in tree.parsed], dtype=np.int64)
        for tree in (npu, bench)
    )
    is_module, other_is_module = (
        np.array([one.kind is Kind.MODULE for one in tree.parsed]) for tree in (npu, bench)
    )

    def of_modules(own: Int, other: Int) -> _Tokens:
        return _Tokens(
            np.where(is_module, own, _NONE), np.where(other_is_module, other, _OTHER_NONE)
        )

    return _Clues(
        _Tokens(*same_ids(mixed(name, shapes[0]), mixed(other_name, shapes[1]))),
        _Tokens(name, other_name),
        of_modules(*by_class),
        of_modules(kind, other_kind),
        of_modules(attribute, other_attribute),
        of_modules(*same_ids(mixed(way, shapes[0]), mixed(other_way, shapes[1]))),
    )


def _local_name(tree: Tree, node: int) -> Hashable:
    """A name as seen from the parent, without the number of the call."""
    name = tree.parsed[node]
    if name.kind is not Kind.MODULE:
        return name.kind, name.direction, name.stem if name.kind is Kind.API else ""
    above = module_path(tree.parsed[max(tree.parent[node], 0)].stem) + "."
    local = name.stem.removeprefix(above)
    return name.kind, name.direction, local if local != name.stem else _last(name.stem, 2)


def _class(name: Name) -> Hashable:
    return name.kind, name.direction, _last(name.stem, 1), "class"


def _attribute(name: Name) -> Hashable:
    """What the parent calls a module; of a list, its number."""
    return name.kind, name.direction, _last(module_path(name.stem), 1), "attribute"


def _last(stem: str, parts: int) -> str:
    return ".".join(stem.split(".")[-parts:])
