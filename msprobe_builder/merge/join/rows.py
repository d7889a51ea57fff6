"""Which parameters of which stage a merged node shows.

Data enters a wrapper at the first stage it flows through and leaves at the last: its inputs come
from the first call, its outputs from the last, its parameters from all. What every stage computes
alike is shown as the first stage has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.parameter_table import ParameterTable, concatenate, take
from msprobe_builder.graph.provenance import Provenance, join, pick
from msprobe_builder.merge.join.stages import Call, MergedNode
from msprobe_builder.merge.join.twins import passed_on, stages_apart
from msprobe_builder.merge.ranks.part import StageGraph

Int = NDArray[np.int64]


def merged_rows(
    nodes: Sequence[MergedNode], stages: Sequence[StageGraph]
) -> tuple[ParameterTable, Provenance]:
    """Gather what each node of the merged model shows."""
    whole = concatenate([stage.table for stage in stages])
    shift = np.cumsum([0, *(len(stage.table) for stage in stages)]).tolist()
    picker = _Picker(stages)
    rows: list[int] = []
    owner: list[int] = []
    of_stage: dict[int, Fact] = {}  # by row, where a wrapper's value stands on one stage only
    for index, node in enumerate(nodes):
        for call, row in picker.rows(node):
            stage = stages[call.stage]
            if len(node.calls) > 1 and node.is_split:
                where = fact("recipe.stage", stage=call.stage, ranks=list(stage.ranks))
                of_stage[len(rows)] = where
            rows.append(row + shift[call.stage])
            owner.append(index)
    picked = np.array(rows, dtype=np.int64)
    table = take(whole, picked, np.array(owner, dtype=np.int64))
    sizes = [len(stage.table) for stage in stages]
    provenance = pick(join([stage.provenance for stage in stages], sizes), rows)
    for row, where in of_stage.items():
        provenance.recipes[row] = (*provenance.recipes.get(row, ()), where)
    begin = np.searchsorted(table.node, np.arange(len(nodes))).tolist()
    texts = stages[0].dump.parameters.texts
    for several in (passed_on(nodes, stages), stages_apart(nodes, stages, texts)):
        for (index, place), found in several.items():
            row = begin[index] + place
            provenance.apart[row] = (*provenance.apart.get(row, ()), *found)
    return table, provenance


class _Picker:
    def __init__(self, stages: Sequence[StageGraph]) -> None:
        self._stages = stages
        self._start = [
            np.searchsorted(stage.table.node, np.arange(len(stage.tree) + 1)).tolist()
            for stage in stages
        ]

    def rows(self, node: MergedNode) -> list[tuple[Call, int]]:
        """Calls and the rows of their stage's table, in the order of a record."""
        if not node.calls:
            return []
        if len(node.calls) == 1 or not node.is_split:
            return self._all(node.calls[0])
        first, last = node.calls[0], node.calls[-1]
        sections: list[tuple[Call, int]] = self._section(first, Section.INPUT)
        sections += self._section(last, Section.OUTPUT)
        known: set[int] = set()
        for call in node.calls:
            for section in (Section.PARAMETERS, Section.PARAMETERS_GRAD):
                for own, row in self._section(call, section):
                    name = int(self._stages[own.stage].table.name_id[row])
                    if name not in known:
                        known.add(name)
                        sections.append((own, row))
        return sections

    def _all(self, call: Call) -> list[tuple[Call, int]]:
        start = self._start[call.stage]
        return [(call, row) for row in range(start[call.node], start[call.node + 1])]

    def _section(self, call: Call, section: Section) -> list[tuple[Call, int]]:
        table = self._stages[call.stage].table
        return [(own, row) for own, row in self._all(call) if table.section[row] == section]
