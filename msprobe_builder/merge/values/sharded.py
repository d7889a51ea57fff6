"""Tensors that are sharded over data-parallel ranks, such as the gradients of FSDP2.

Modules see whole weights, but of a gradient each rank keeps the part that it updates: a
distributed tensor placed ``S(d)`` on a mesh of all replicas. It is reduced before, so the parts
together are the mean over the replicas, which is the gradient of an unsharded run with one replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import parse_gradients
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable, take
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.merge.ranks.placements import (
    cut_dimension,
    is_whole,
    placements,
    with_local_shapes,
)
from msprobe_builder.merge.values.combine import combine
from msprobe_builder.merge.values.common_rows import common_rows
from msprobe_builder.merge.values.data import files_of

_LARGEST, _SMALLEST = 0, 1


class Held(NamedTuple):
    """One rank that holds parts."""

    rank: int
    side: Side


def parts_of_replicas(table: ParameterTable, texts: Texts) -> list[int]:
    """Rows of one rank of which other replicas hold other parts."""
    return [row for row, one in placements(table, texts).items() if not is_whole(one)]


def join_parts(
    first: Side, holders: Sequence[Held], provenance: Provenance, texts: Texts
) -> tuple[ParameterTable, Provenance]:
    """The table of a rank with its sharded weights and gradients put together of all holders.

    Only of what is cut once, over all of them: a mesh of several dimensions says more than is known
    here of who holds what.
    """
    table = first.table
    sides = [one.side for one in holders]
    shared, _ = common_rows(sides)
    placed = placements(sides[0].table, texts)
    own = {int(row): place for place, row in enumerate(_rows_of(first, sides, shared))}
    sums = _sums_of_passes(first)
    chosen: list[int] = []
    cuts: list[tuple[int, str]] = []
    for row, place in own.items():
        text = placed.get(int(shared[0][place]), "")
        dimension = cut_dimension(text) if "," not in text else None
        weights = (Section.PARAMETERS, Section.PARAMETERS_GRAD)
        if dimension is not None and table.section[row] in weights and row not in sums:
            chosen.append(row)
            cuts.append((dimension, text))
    if not chosen:
        return table, provenance
    rows = np.array(chosen, dtype=np.int64)
    picked = [one[[own[row] for row in chosen]] for one in shared]
    tables = [
        take(side.table, of_rank, table.node[rows])
        for side, of_rank in zip(sides, picked, strict=True)
    ]
    tables = [_with_empty_parts(one) for one in with_local_shapes(tables, texts)]
    states = [
        State(Share.SHARD, Cut(dimension)).because(fact("reason.placed_over_replicas", placed=text))
        for dimension, text in cuts
    ]
    parts = [files_of(side, of_rank) for side, of_rank in zip(sides, picked, strict=True)]
    joined = combine(tables, states, texts, [one.rank for one in holders], parts)
    table, provenance = _put_back(table, provenance, rows, joined.table, joined.provenance)
    value_id = table.value_id.copy()
    value_id[rows] = texts.id("R")  # from here on each rank has the whole
    return replace(table, value_id=value_id), provenance


def _sums_of_passes(side: Side) -> set[int]:
    """Rows of gradients behind the first pass: a part is kept with what is added to it later.

    A single rank records what each pass brings.
    """
    table, names = side.table, side.tree.names
    begun: set[tuple[str, int]] = set()
    found = set()
    for row in np.flatnonzero(table.section == Section.PARAMETERS_GRAD).tolist():
        of = parse_gradients(names[int(table.node[row])])
        key = (of[0] if of else "", int(table.name_id[row]))
        if key in begun:
            found.add(row)
        begun.add(key)
    return found


def _rows_of(
    first: Side, sides: Sequence[Side], shared: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The rows of ``first`` among those that all sides share; it is one of them."""
    place = next(number for number, side in enumerate(sides) if side is first)
    return shared[place]


def _with_empty_parts(table: ParameterTable) -> ParameterTable:
    """A part without elements has no statistics and changes none."""
    empty = np.flatnonzero(table.numel == 0)
    if not len(empty):
        return table
    statistics, missing = table.statistics.copy(), table.missing.copy()
    missing[empty] = 0
    statistics[:, empty] = 0.0
    statistics[_LARGEST, empty], statistics[_SMALLEST, empty] = -np.inf, np.inf
    return replace(table, statistics=statistics, missing=missing)


def _put_back(
    table: ParameterTable,
    provenance: Provenance,
    rows: NDArray[np.int64],
    joined: ParameterTable,
    said: Provenance,
) -> tuple[ParameterTable, Provenance]:
    columns = {}
    for name in ("missing", "numel", "shape_id"):
        column = getattr(table, name).copy()
        column[rows] = getattr(joined, name)
        columns[name] = column
    statistics = table.statistics.copy()
    statistics[:, rows] = joined.statistics
    of_row = dict(enumerate(rows.tolist()))
    again = set(of_row.values())
    kept = {row: one for row, one in provenance.assemblies.items() if row not in again}
    return (
        replace(
            table,
            statistics=statistics,
            md5={row: one for row, one in table.md5.items() if row not in again},
            file={row: one for row, one in table.file.items() if row not in again},
            **columns,
        ),
        replace(
            provenance,
            recipes=provenance.recipes | {of_row[n]: one for n, one in said.recipes.items()},
            assemblies=kept | {of_row[n]: one for n, one in said.assemblies.items()},
            unknown=provenance.unknown | {of_row[n]: one for n, one in said.unknown.items()},
            shares=provenance.shares | {of_row[n]: one for n, one in said.shares.items()},
        ),
    )
