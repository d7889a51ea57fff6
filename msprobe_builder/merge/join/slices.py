"""Merging the ranks of one pipeline stage that hold other tokens or other experts.

Tensor-parallel ranks were joined before. What all tokens pass is joined over the context-parallel
ranks of one replica. Experts get tokens of every rank that shares them, of other replicas too:
they are joined over those with the same experts first, and then over all.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.parameter_table import ParameterTable, concatenate, take
from msprobe_builder.graph.provenance import Apart, Provenance, join, pick
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.context import Slicing, classify_tokens, sequence_orders
from msprobe_builder.merge.flow.expert_rows import classify_exchange, classify_experts
from msprobe_builder.merge.flow.experts import Region, regions
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.merge.join.union import Group, unite
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.values.agreement import distances, tolerances
from msprobe_builder.merge.values.blocks import Orders
from msprobe_builder.merge.values.combine import Combined, combine, combined_shards
from msprobe_builder.merge.values.not_finite import not_finite_in_slices

Key = tuple[int, int, int]  # node of the common tree, section, name
_NO_ORDER = fact("unmerged.order")
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
    provenance: Provenance
    ranks: tuple[int, ...] = ()
    drifted: tuple[str, ...] = ()
    of_tokens: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))


def merge_slices(
    slices: Sequence[Slice], slicing: Slicing | None, texts: Texts
) -> tuple[StageGraph, list[Diagnostic]]:
    """One stage from its slices; ``slicing`` tells how much of each sequence each has."""
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
        return classify_tokens(tree, tables, texts, ranks, slicing)

    def same_experts(tables: Sequence[ParameterTable], ranks: Sequence[int]) -> list[State]:
        return classify_tokens(tree, tables, texts, ranks, slicing, of_experts=True)

    def other_experts(tables: Sequence[ParameterTable], _ranks: Sequence[int]) -> list[State]:
        return classify_experts(tree, tables, texts)

    def exchange(tables: Sequence[ParameterTable], ranks: Sequence[int]) -> list[State]:
        return classify_exchange(tree, tables, texts, ranks)

    rows = _lists_in_order(_aligned(parts, holders), texts)
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
            same = [
                _combined(one, same_experts, texts, tree, orders=()) for one in classes.values()
            ]
            between = other_experts if own is Region.EXPERTS else exchange
            done.append(_combined(same, between, texts, tree, orders=()))
        else:
            orders = sequence_orders(len(held))
            done.append(_combined(list(held.values()), tokens, texts, tree, orders=orders))
        order += [place for place, _ in keys]
    whole = _in_order(done, np.array(order, dtype=np.int64))
    ranks = tuple(sorted({rank for part in parts for rank in part.ranks}))
    origins = [
        tuple(sorted({r for call in own for r in parts[call.stage].ranks_of(call.node)}))
        for own in holders
    ]
    dump = replace(parts[0].dump, stacks=stacks)
    # Experts get tokens of all slices, so what one rank alone has of an expert is of them, too.
    is_sent = np.array([one is not Region.DENSE for one in region])[whole.table.node]
    of_tokens = np.flatnonzero((whole.of_tokens | is_sent) & whole.table.is_tensor).tolist()
    dense = sum(one.has_dense for one in slices)
    slices_of = dict.fromkeys(of_tokens, dense) if dense > 1 else {}
    provenance = replace(whole.provenance, origins=origins, slices=slices_of)
    stage = StageGraph(dump, tree, whole.table, ranks, provenance)
    return stage, about(
        "warning",
        "replicas_disagree",
        [subject for one in done for subject in one.drifted],
        fact("note.ranks_unlike_of", ranks=list(ranks)),
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


def _lists_in_order(rows: dict[Key, dict[int, int]], texts: Texts) -> dict[Key, dict[int, int]]:
    """The same with the elements of a list side by side, whichever ranks have them.

    Tensors are paired by their place: the experts of a later rank stand behind those of the first,
    not behind everything else that the call took.
    """
    first: dict[tuple[int, int, str], int] = {}
    order: list[tuple[int, tuple[int, ...], int]] = []
    for place, (node, section, name) in enumerate(rows):
        stem, numbers = _list_place(texts.values[name])
        order.append((first.setdefault((node, section, stem), place), numbers, place))
    keys = list(rows)
    return {keys[place]: rows[keys[place]] for *_, place in sorted(order)}


def _list_place(name: str) -> tuple[str, tuple[int, ...]]:
    """``input.1.10`` as ``input`` and 1, 10."""
    numbers: list[int] = []
    stem, _, last = name.rpartition(".")
    while last.isdecimal():
        numbers.append(int(last))
        name = stem
        stem, _, last = name.rpartition(".")
    return name, tuple(reversed(numbers))


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
    table = take(part.table, np.array(rows, dtype=np.int64), nodes)
    none = np.zeros(len(rows), dtype=bool)
    return _Rows(table, pick(part.provenance, rows), part.ranks, of_tokens=none)


def _combined(
    parts: Sequence[_Rows], classify: Classify, texts: Texts, tree: Tree, *, orders: Orders
) -> _Rows:
    """Equal rows of some parts joined; what was said of them before is kept.

    ``orders`` are those that the tokens of the parts may have; without any they are not known.
    """
    if len(parts) == 1:
        return parts[0]
    ranks = tuple(sorted({rank for part in parts for rank in part.ranks}))
    tables = [part.table for part in parts]
    firsts = [part.ranks[0] for part in parts]
    states = classify(tables, ranks)
    said = [part.provenance for part in parts]
    dumped = [part.provenance.assemblies if orders else _weights(part) for part in parts]
    known = {row: orders for row in dumped[0] if states[row].share is Share.SHARD}
    result = combine(tables, states, texts, firsts, dumped, known if orders else {})
    recipes = dict(said[0].recipes)
    for row, recipe in result.provenance.recipes.items():
        before = said[0].recipes.get(row)
        recipes[row] = recipe
        if before:
            recipes[row] += (fact("recipe.before", rank=firsts[0], recipe=before),)
    drifted = [
        f"{tree.names[result.table.node[row]]} {texts.values[result.table.name_id[row]]}"
        for row in result.drifted
    ]
    assemblies = result.provenance.assemblies
    unknown = {row: _NO_ORDER for one in said for row in one.assemblies.keys() - assemblies.keys()}
    unknown |= result.provenance.unknown
    for one in said:
        unknown |= one.unknown
    if orders:
        _forget_copies(result)
    return _Rows(
        result.table,
        Provenance(
            recipes,
            assemblies,
            unknown,
            apart=_outvoted(
                [_in_whole(place, said, tables, states) for place in range(len(said))],
                _of_parts(result.provenance.apart, said, firsts),
                result.table,
            ),
            shares=said[0].shares | result.provenance.shares,
            factors=dict(ChainMap(*(one.factors for one in [result.provenance, *said]))),
            singles=result.provenance.singles,
            not_finite=not_finite_in_slices(result.provenance, said, firsts),
        ),
        ranks,
        (*(d for p in parts for d in p.drifted), *drifted),
        np.array([one.share is Share.SHARD or one.reduced >= 0 for one in states], dtype=bool),
    )


def _in_whole(
    place: int,
    said: Sequence[Provenance],
    tables: Sequence[ParameterTable],
    states: Sequence[State],
) -> dict[int, tuple[Apart, ...]]:
    """Who differs within one slice, with what the whole of all slices would be by their values."""
    found = dict(said[place].apart)
    for row, several in found.items():
        if states[row].share is not Share.SHARD:
            continue
        parts = np.array([table.statistics[:, row] for table in tables])[:, :, None]
        elements = np.array([[table.numel[row]] for table in tables])
        told = []
        for one in several:
            parts[place, :, 0] = one.statistics
            high, low, mean, norm = combined_shards(parts, elements)[:, 0].tolist()
            told.append(one._replace(whole=(high, low, mean, norm)))
        found[row] = tuple(told)
    return found


def _of_parts(
    found: Mapping[int, tuple[Apart, ...]], said: Sequence[Provenance], firsts: Sequence[int]
) -> dict[int, tuple[Apart, ...]]:
    """The same, with the rank named whose part of a weight differs, where it is one part alone.

    ``firsts`` are the first ranks of the slices, by which they are known so far. The numbers stay
    those of all parts together, as the reference has no others.
    """
    result = dict(found)
    for row, several in found.items():
        shares = [one.shares[row] for one in said if row in one.shares]
        if len(shares) < len(said):
            continue
        differing = {
            place
            for own in shares[1:]
            for place in np.flatnonzero(
                distances(own.statistics[:, :, None], shares[0].statistics[:, :, None])[:, 0]
                > tolerances(np.zeros(1))
            ).tolist()
        }
        if len(differing) == 1:
            [place] = differing
            named: dict[int | None, int] = {
                rank: own.ranks[place] for rank, own in zip(firsts, shares, strict=True)
            }
            result[row] = tuple(
                one._replace(
                    rank=named.get(one.rank, one.rank),
                    shown_rank=named.get(one.shown_rank, one.shown_rank),
                    suspect=named.get(one.suspect, one.suspect),
                )
                for one in several
            )
    return result


def _outvoted(
    within: Sequence[Mapping[int, tuple[Apart, ...]]],
    between: Mapping[int, tuple[Apart, ...]],
    table: ParameterTable,
) -> dict[int, tuple[Apart, ...]]:
    """All that was found of each row, once for each rank.

    Where a rank differs from the first of its slice and agrees with what is shown now, it is that
    first one which differs from both.
    """
    result: dict[int, tuple[Apart, ...]] = {}
    limit = float(tolerances(np.zeros(1))[0])
    witnesses: dict[int, set[int | None]] = {}
    for row, one in (
        (row, one) for own in within for row, several in own.items() for one in several
    ):
        shown, mine = table.statistics[:, row], np.array(one.statistics)
        is_same = one.whole is None and distances(mine[:, None], shown[:, None])[0] <= limit
        if is_same and row in between:
            witnesses.setdefault(row, set()).add(one.shown_rank)
        elif one.rank not in {other.rank for other in result.get(row, ())}:
            result[row] = (*result.get(row, ()), one)
    for row, several in between.items():
        known = {one.rank for one in result.get(row, ())}
        off = witnesses.get(row, set())
        news = (
            one._replace(suspect=one.rank) if one.rank in off else one
            for one in several
            if one.rank not in known
        )
        result[row] = (*result.get(row, ()), *news)
    return result


def _forget_copies(tokens: Combined) -> None:
    """Leave only the first copy of activations on which ranks with other tokens agree.

    Masks of their own may have equal statistics; elements that differ are no disagreement.
    """
    weights = Section.PARAMETERS, Section.PARAMETERS_GRAD
    assemblies = tokens.provenance.assemblies
    for row, one in assemblies.items():
        if one.dimension is None and tokens.table.section[row] not in weights:
            assemblies[row] = replace(one, parts=one.parts[:1])


def _weights(part: _Rows) -> dict[int, Assembly]:
    """The files of weights and their gradients."""
    section = part.table.section
    weights = Section.PARAMETERS, Section.PARAMETERS_GRAD
    return {row: one for row, one in part.provenance.assemblies.items() if section[row] in weights}


def _in_order(done: Sequence[_Rows], order: NDArray[np.int64]) -> _Rows:
    whole = concatenate([one.table for one in done])
    rows = np.lexsort((order, whole.node))
    said = join([one.provenance for one in done], [len(one.table) for one in done])
    of_tokens = np.concatenate([one.of_tokens for one in done])[rows]
    own = pick(said, rows.tolist())
    return _Rows(take(whole, rows, whole.node[rows]), own, of_tokens=of_tokens)
