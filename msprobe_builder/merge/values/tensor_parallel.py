"""Merging the tensor-parallel ranks of one pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.task import task_of
from msprobe_builder.graph.parameter_table import ParameterTable, take
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.sharding import classify
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.ranks.placements import is_whole, placements, with_local_shapes
from msprobe_builder.merge.values.blocks import find_blocks
from msprobe_builder.merge.values.combine import combine
from msprobe_builder.merge.values.data import files_of

Int = NDArray[np.int64]
_ALL_MISSING = 0b1111
_PART = "each data-parallel rank holds a part of it"


def merge_ranks(
    sides: Sequence[Side], ranks: Sequence[int], texts: Texts
) -> tuple[StageGraph, list[Diagnostic]]:
    """One stage from its tensor-parallel ranks, whose texts share one id space."""
    first = sides[0]
    # The table holds all there is to know of the parameters; the columns as read are let go.
    dump = replace(first.dump, task=task_of(first.dump).value, parameters=Parameters(texts))
    if len(sides) == 1:
        table, provenance = without_parts(
            first.table, Provenance(assemblies=files_of(first)), texts
        )
        return StageGraph(dump, first.tree, table, tuple(ranks), provenance), []
    rows, alone = _common_rows(sides)
    diagnostics = about(
        "warning",
        "rank_without_twin",
        alone,
        "Parameters exist on some tensor-parallel ranks only and were left out of the merge.",
    )
    tables = [
        take(side.table, own, first.table.node[rows[0]])
        for side, own in zip(sides, rows, strict=True)
    ]
    tables = with_local_shapes(tables, texts)
    states = classify(first.tree, tables, texts, ranks)
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
        "Tensors that the ranks of a stage should hold alike differ between them.",
    )
    stage = StageGraph(dump, first.tree, combined.table, tuple(ranks), combined.provenance)
    return stage, diagnostics


def without_parts(
    table: ParameterTable, provenance: Provenance, texts: Texts
) -> tuple[ParameterTable, Provenance]:
    """A rank's table without the values of tensors that ranks of other replicas hold parts of.

    Such as gradients that are sharded over data-parallel ranks.
    """
    rows = [row for row, one in placements(table, texts).items() if not is_whole(one)]
    if not rows:
        return table, provenance
    missing, statistics = table.missing.copy(), table.statistics.copy()
    missing[rows], statistics[:, rows] = _ALL_MISSING, np.nan
    return replace(table, missing=missing, statistics=statistics), provenance.without(rows, _PART)


def _common_rows(sides: Sequence[Side]) -> tuple[list[Int], list[str]]:
    """Rows of each rank that all ranks have, in the order of the first; names of the others."""
    keyed = [_rows_by_key(side) for side in sides]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    common = set(shared)
    alone = sorted({key[0] for own in keyed for key in own if key not in common})
    return [np.array([own[key] for key in shared], dtype=np.int64) for own in keyed], alone


def _rows_by_key(side: Side) -> dict[tuple[str, int, int], int]:
    names = side.tree.names
    table: ParameterTable = side.table
    return {
        (names[node], section, name): row
        for row, (node, section, name) in enumerate(
            zip(table.node.tolist(), table.section.tolist(), table.name_id.tolist(), strict=True)
        )
    }
