"""Merging the tensor-parallel ranks of one pipeline stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameter_columns import ALL_MISSING
from msprobe_builder.dump.parameters import Parameters, Section
from msprobe_builder.dump.shapes import parse_numbers
from msprobe_builder.dump.task import task_of
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable, take
from msprobe_builder.graph.provenance import Apart, Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.knowledge import OF_REPLICAS
from msprobe_builder.merge.flow.sharding import classify
from msprobe_builder.merge.flow.wholes import Wholes
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.ranks.placements import with_local_shapes
from msprobe_builder.merge.values.blocks import find_blocks
from msprobe_builder.merge.values.combine import combine
from msprobe_builder.merge.values.common_rows import common_rows
from msprobe_builder.merge.values.data import files_of
from msprobe_builder.merge.values.numbers import numbers_of, shares_of_norms
from msprobe_builder.merge.values.sharded import Held, join_parts, parts_of_replicas


def merge_ranks(
    sides: Sequence[Side],
    ranks: Sequence[int],
    texts: Texts,
    holders: Sequence[Held] = (),
    wholes: Wholes | None = None,
) -> tuple[StageGraph, list[Diagnostic]]:
    """One stage from its tensor-parallel ranks, whose texts share one id space.

    ``holders`` are the ranks of all replicas that hold a part each of what is sharded over them,
    ``wholes`` the shapes of parameters on the other side, if it is not cut.
    """
    first = sides[0]
    # The table holds all there is to know of the parameters; the columns as read are let go.
    dump = replace(first.dump, task=task_of(first.dump).value, parameters=Parameters(texts))
    if len(sides) == 1:
        numbers = numbers_of(sides, [range(len(first.table))], ranks, texts)
        table, provenance = first.table, Provenance(assemblies=files_of(first), numbers=numbers)
        if holders:
            table, provenance = join_parts(first, holders, provenance, texts)
        table, provenance = without_parts(table, provenance, texts)
        return StageGraph(dump, first.tree, table, tuple(ranks), provenance), []
    rows, alone = common_rows(sides)
    diagnostics = about(
        "warning",
        "rank_without_twin",
        [
            f"{name}: on {'rank' if len(places) == 1 else 'ranks'} "
            f"{', '.join(str(ranks[place]) for place in places)} of {', '.join(map(str, ranks))}"
            for name, places in alone
        ],
        fact("note.rank_alone"),
    )
    tables = [
        take(side.table, own, first.table.node[rows[0]])
        for side, own in zip(sides, rows, strict=True)
    ]
    tables = with_local_shapes(tables, texts)
    states = classify(first.tree, tables, texts, ranks, wholes)
    parts = [files_of(side, own) for side, own in zip(sides, rows, strict=True)]
    # The order of elements is of no account where there are none.
    orders = find_blocks(first.tree, tables, states, texts) if parts[0] else {}
    combined = combine(tables, states, texts, ranks, parts, orders)
    shown = ", ".join(map(str, ranks))
    drifted = [
        f"{first.tree.names[combined.table.node[row]]} {texts.values[combined.table.name_id[row]]}"
        f" of ranks {shown}"
        for row in combined.drifted
    ]
    # One message for all stages and replicas, so that thousands of ranks make one line.
    diagnostics += about(
        "warning",
        "replicas_disagree",
        drifted,
        fact("note.ranks_unlike"),
    )
    numbers = numbers_of(sides, rows, ranks, texts)
    shares = combined.provenance.shares | shares_of_norms(numbers, tables, states, ranks)
    provenance = replace(
        combined.provenance,
        numbers=numbers,
        shares=shares,
        apart=_without_suspects(combined.table, combined.provenance.apart, texts, ranks),
    )
    return StageGraph(dump, first.tree, combined.table, tuple(ranks), provenance), diagnostics


def _without_suspects(
    table: ParameterTable,
    apart: Mapping[int, tuple[Apart, ...]],
    texts: Texts,
    ranks: Sequence[int],
) -> dict[int, tuple[Apart, ...]]:
    """The same, with nobody suspected of what came from ranks of other groups.

    A sum over replicas that differs shows that the replicas do, not which of these ranks is off;
    nor does what follows from it. It is known again by its statistics on the ranks that differ.
    """
    if not apart:
        return {}
    kinds = [kind for kind, text in enumerate(texts.values) if text.endswith("ProcessGroup")]
    groups = np.flatnonzero(np.isin(table.type_id, kinds) & (table.value_id >= 0))
    reaching_out = {
        int(table.node[row])
        for row in groups.tolist()
        if not {*(parse_numbers(texts.values[table.value_id[row]]) or ())} <= {*ranks}
    }
    handed: set[tuple[tuple[int, tuple[float, ...]], ...]] = set()
    found = dict(apart)
    for node, rows in groupby(sorted(apart), lambda row: int(table.node[row])):
        keys = {row: tuple((one.rank, one.statistics) for one in apart[row]) for row in rows}
        is_given = any(
            table.section[row] == Section.INPUT and key in handed for row, key in keys.items()
        )
        for row, key in keys.items():
            if node in reaching_out or is_given or key in handed:
                handed.add(key)
                found[row] = tuple(
                    one._replace(suspect=None, is_from_others=True) for one in apart[row]
                )
    return found


def without_parts(
    table: ParameterTable, provenance: Provenance, texts: Texts
) -> tuple[ParameterTable, Provenance]:
    """A rank's table without the values of tensors that ranks of other replicas hold parts of.

    Such as gradients that are sharded over data-parallel ranks.
    """
    rows = [
        row
        for row in parts_of_replicas(table, texts)
        if row not in provenance.recipes  # was joined
    ]
    if not rows:
        return table, provenance
    missing, statistics = table.missing.copy(), table.statistics.copy()
    missing[rows], statistics[:, rows] = ALL_MISSING, np.nan
    return replace(table, missing=missing, statistics=statistics), provenance.without(
        rows, OF_REPLICAS
    )
