"""Weights that two pipeline stages hold alike: the embedding tied to the output layer.

Each stage has but its share of such a weight's gradient. The stages add them up afterwards, in a
call that says nothing of single tensors, so the gradients are marked unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.merge.flow.parallel_layers import module_stem
from msprobe_builder.merge.join.stages import MergedNode
from msprobe_builder.merge.join.tied_weights import tied_modules
from msprobe_builder.merge.ranks.part import StageGraph

_ALL_MISSING = 0b1111
_WHY = fact("unmerged.tied")


def without_tied_gradients(
    table: ParameterTable,
    provenance: Provenance,
    nodes: Sequence[MergedNode],
    stages: Sequence[StageGraph],
) -> tuple[ParameterTable, Provenance]:
    """The rows with the gradients of tied weights marked unknown."""
    copies = tied_modules(stages)
    tied = {*copies, *copies.values()}
    if not tied:
        return table, provenance
    gradients = table.section == Section.PARAMETERS_GRAD
    rows = {
        row
        for row in np.flatnonzero(gradients).tolist()
        for stage, node in nodes[table.node[row]].calls
        if (stage, module_stem(stages[stage].tree.parsed[node])) in tied
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
