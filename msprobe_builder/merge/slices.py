"""Merging the ranks of one pipeline stage that hold other tokens or other experts.

Tensor-parallel ranks were joined before. What all tokens pass is joined over the context-parallel
ranks of one replica. Experts get tokens of every rank that shares them, of other replicas too:
they are joined over those with the same experts first, and then over all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.diagnostics import Diagnostic, about
from msprobe_builder.graph.parameter_table import ParameterTable, concatenate, take
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.combine import combine
from msprobe_builder.merge.context import classify_tokens
from msprobe_builder.merge.expert_rows import classify_exchange, classify_experts
from msprobe_builder.merge.experts import Region, regions
from msprobe_builder.merge.part import StageGraph
from msprobe_builder.merge.share import State
from msprobe_builder.merge.union import Group, unite
from msprobe_builder.texts import Texts

Key = tuple[int, int, int]  # node of the common tree, section, name
Classify = Callable[[Sequence[ParameterTable], Sequence[int]], list[State]]


@dataclass(frozen=True)
class Slice:
    """One rank, or a group of tensor-parallel ranks that were joined.

    ``share`` tells which of the experts it has. Either side of it may be of no use here: the dense
    part of another replica, or experts that single ranks of the group have.
    """

    graph: StageGraph
    share: int = 0
    has_dense: bool = True
    has_experts: bool = True


@dataclass(frozen=True)
class _Rows:
    """Rows of the merged table in the making, and what is to be said of them."""

    table: ParameterTable
    recipes: dict[int, str]
    ranks: tuple[int, ...]
    drifted: tuple[str, ...] = ()


def merge_slices(
    slices: Sequence[Slice], length: int | None, texts: Texts
) -> tuple[StageGraph, list[Diagnostic]]:
    """One stage from its slices; ``length`` counts the tokens of a sequence that a rank has."""
    if len(slices) == 1:
        return slices[0].graph, []
    slices = sorted(slices, key=lambda one: one.share)
    parts = [one.graph for one in slices]
    tree, stacks, groups = unite(parts, [_shown(one) for one in slices])
    region = regions(tree)
    holders = [
        [call for call in group if _holds(slices[call.stage], own)]
        for group, own in zip(groups, region, strict=True)
    ]

    def tokens(tables: Sequence[ParameterTable], ranks: Sequence[int]) -> list[State]:
        return classify_tokens(tree, tables, texts, ranks, length)

    def same_experts(tables: Sequence[ParameterTable], ranks: Sequence[int]) -> list[State]:
        return classify_tokens(tree, tables, texts, ranks, length, of_experts=True)

    def other_experts(tables: Sequence[ParameterTable], _ranks: Sequence[int]) -> list[State]:
        return classify_experts(tree, tables, texts)

    def exchange(tables: Sequence[ParameterTable], ranks: Sequence[int]) -> list[State]:
        return classify_exchange(tree, tables, texts, ranks)

    rows = _aligned(parts, holders)
    done: list[_Rows] = []
    order: list[int] = []
    for (members, own), keys in _by_members(rows, region).items():
        nodes = np.array([key[0] for _, key in keys], dtype=np.int64)
        held = {
            member: _taken(parts[member], [rows[key][member] for _, key in keys], nodes)
            for member in members
        }
        if own is not Region.DENSE:
            classes: dict[int, list[_Rows]] = {}
            for member in members:
                classes.setdefault(slices[member].share, []).append(held[member])
            same = [_combined(one, same_experts, texts, tree) for one in classes.values()]
            between = other_experts if own is Region.EXPERTS else exchange
            done.append(_combined(same, between, texts, tree))
        else:
            done.append(_combined(list(held.values()), tokens, texts, tree))
        order += [place for place, _ in keys]
    whole = _in_order(done, np.array(order, dtype=np.int64))
    ranks = tuple(sorted({rank for part in parts for rank in part.ranks}))
    origins = [
        tuple(sorted({r for call in own for r in parts[call.stage].ranks_of(call.node)}))
        for own in holders
    ]
    dump = replace(parts[0].dump, stacks=stacks)
    stage = StageGraph(dump, tree, whole.table, ranks, whole.recipes, origins)
    return stage, about(
        "warning",
        "replicas_disagree",
        [subject for one in done for subject in one.drifted],
        f"Tensors that ranks {', '.join(map(str, ranks))} should hold alike differ between them.",
    )


def _holds(one: Slice, region: Region) -> bool:
    return one.has_dense if region is Region.DENSE else one.has_experts


def _shown(one: Slice) -> list[bool]:
    """The nodes of use, and all above them; the dense part shows where the experts stand."""
    tree = one.graph.tree
    shown = [one.has_dense or region is not Region.DENSE for region in regions(tree)]
    for node in range(len(tree) - 1, 0, -1):
        if shown[node]:
            shown[int(tree.parent[node])] = True
    return shown


def _aligned(parts: Sequence[StageGraph], holders: Sequence[Group]) -> dict[Key, dict[int, int]]:
    """The row of each part by the parameter it is of."""
    of_node: list[dict[int, int]] = [{} for _ in parts]
    for node, group in enumerate(holders):
        for call in group:
            of_node[call.stage][call.node] = node
    rows: dict[Key, dict[int, int]] = {}
    for member, part in enumerate(parts):
        columns = part.table.node, part.table.section, part.table.name_id
        for row, (own, section, name) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            if own in of_node[member]:
                rows.setdefault((of_node[member][own], section, name), {})[member] = row
    return rows


def _by_members(
    rows: dict[Key, dict[int, int]], region: Sequence[Region]
) -> dict[tuple[tuple[int, ...], Region], list[tuple[int, Key]]]:
    """Parameters that the same parts have together, by node; with their place in the order."""
    found: dict[tuple[tuple[int, ...], Region], list[tuple[int, Key]]] = {}
    for place, (key, own) in enumerate(rows.items()):
        found.setdefault((tuple(own), region[key[0]]), []).append((place, key))
    for keys in found.values():
        keys.sort(key=lambda one: one[1][0])
    return found


def _taken(part: StageGraph, rows: list[int], nodes: NDArray[np.int64]) -> _Rows:
    recipes = {new: part.recipes[old] for new, old in enumerate(rows) if old in part.recipes}
    return _Rows(take(part.table, np.array(rows, dtype=np.int64), nodes), recipes, part.ranks)


def _combined(parts: Sequence[_Rows], classify: Classify, texts: Texts, tree: Tree) -> _Rows:
    """Equal rows of some parts joined; what was said of them before is kept."""
    if len(parts) == 1:
        return parts[0]
    ranks = tuple(sorted({rank for part in parts for rank in part.ranks}))
    tables = [part.table for part in parts]
    firsts = [part.ranks[0] for part in parts]
    result = combine(tables, classify(tables, ranks), texts, firsts)
    recipes = dict(parts[0].recipes)
    for row, recipe in result.recipes.items():
        before = parts[0].recipes.get(row)
        recipes[row] = f"{recipe}; of rank {firsts[0]} before: {before}" if before else recipe
    drifted = [
        f"{tree.names[result.table.node[row]]} {texts.values[result.table.name_id[row]]}"
        for row in result.drifted
    ]
    return _Rows(result.table, recipes, ranks, (*(d for p in parts for d in p.drifted), *drifted))


def _in_order(done: Sequence[_Rows], order: NDArray[np.int64]) -> _Rows:
    whole = concatenate([one.table for one in done])
    rows = np.lexsort((order, whole.node))
    new_row = np.empty(len(rows), dtype=np.int64)
    new_row[rows] = np.arange(len(rows))
    recipes: dict[int, str] = {}
    start = 0
    for one in done:
        recipes |= {int(new_row[start + row]): recipe for row, recipe in one.recipes.items()}
        start += len(one.table)
    return _Rows(take(whole, rows, whole.node[rows]), recipes, ())
