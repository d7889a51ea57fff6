"""Weights that two pipeline stages hold alike: the embedding tied to the output layer.

Each stage has but its share of such a weight's gradient. The stages add them up afterwards, in a
call that says nothing of single tensors, so the gradients are marked unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.merge.flow.parallel_layers import module_stem
from msprobe_builder.merge.join.stages import MergedNode

_ALL_MISSING = 0b1111
_WHY = "share of a weight that several pipeline stages hold; their sum was not recorded"


def without_tied_gradients(
    table: ParameterTable,
    provenance: Provenance,
    names: Sequence[Name],
    nodes: Sequence[MergedNode],
) -> tuple[ParameterTable, Provenance]:
    """The rows with the gradients of tied weights marked unknown."""
    tied = _tied_weights(table, names, nodes)
    if not tied:
        return table, provenance
    gradients = table.section == Section.PARAMETERS_GRAD
    rows = {
        row
        for row in np.flatnonzero(gradients).tolist()
        if module_stem(names[table.node[row]]) in tied
    }
    missing, statistics = table.missing.copy(), table.statistics.copy()
    missing[[*rows]] = _ALL_MISSING
    statistics[:, [*rows]] = np.nan
    table = replace(
        table,
        missing=missing,
        statistics=statistics,
        md5={row: text for row, text in table.md5.items() if row not in rows},
        file={row: text for row, text in table.file.items() if row not in rows},
    )
    return table, provenance.without(rows, _WHY)


def _tied_weights(
    table: ParameterTable, names: Sequence[Name], nodes: Sequence[MergedNode]
) -> set[str]:
    """Modules whose first parameter a module of another stage has, too.

    Equal are dtype, shape and all statistics; constants such as fresh norms are not looked at.
    """
    holders: dict[bytes, dict[str, int]] = defaultdict(dict)
    for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
        index = int(table.node[row])
        name, calls = names[index], nodes[index].calls
        values = table.statistics[:, row]
        is_first = name.call == 0 and name.direction is Direction.FORWARD
        if not is_first or name.kind is not Kind.MODULE or len({one.stage for one in calls}) != 1:
            continue
        if table.missing[row] or values[0] == values[1] or table.position[row]:
            continue
        key = values.tobytes() + bytes(f"{table.shape_id[row]} {table.dtype_id[row]}", "ascii")
        holders[key][name.stem] = calls[0].stage
    return {stem for stages in holders.values() if len(set(stages.values())) > 1 for stem in stages}
