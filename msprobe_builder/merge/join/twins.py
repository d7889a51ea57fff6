"""What several pipeline stages ran alike, compared between them.

The first stage's values are shown. A module that stands outside of all layers is the same on every
stage that has it: given the same it puts out the same. So does a call in such a module, and a
call elsewhere that was given the same tensors and the same numbers; a call that was given
something else is another one that happens to look alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Apart
from msprobe_builder.merge.flow.operators import operator_of_call
from msprobe_builder.merge.join.stages import Call, MergedNode
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.values.agreement import apart, distances, recorded_by_all, tolerances
from msprobe_builder.operators.questions import is_uninitialised

Int = NDArray[np.int64]
_ALL_MISSING = 0b1111


def stages_apart(
    nodes: Sequence[MergedNode], stages: Sequence[StageGraph], texts: Texts
) -> dict[tuple[int, int], tuple[Apart, ...]]:
    """By node and row within it: the stages that differ from the first one, which is shown."""
    starts = [np.searchsorted(one.table.node, np.arange(len(one.tree) + 1)) for one in stages]
    tolerance = [tolerances(epsilons(one.table.dtype_id, texts)) for one in stages]
    found: dict[tuple[int, int], tuple[Apart, ...]] = {}
    for index, node in enumerate(nodes):
        if len(node.calls) < 2 or node.is_split or node.name.direction is not Direction.FORWARD:
            continue
        if is_uninitialised(operator_of_call(node.name)):
            continue
        first = node.calls[0]
        begin, end = starts[first.stage][first.node : first.node + 2].tolist()
        others = [
            call
            for call in node.calls[1:]
            if _is_alike(node, first, call, stages, starts, tolerance[first.stage][begin:end])
        ]
        if not others:
            continue
        tables = [stages[call.stage].table for call in (first, *others)]
        rows = [int(starts[call.stage][call.node]) for call in (first, *others)]
        ranks = [stages[call.stage].ranks_of(call.node)[0] for call in (first, *others)]
        for place in _compared(tables[0], begin, end):
            own = [(table, row + place) for table, row in zip(tables, rows, strict=True)]
            stack = np.array([[table.statistics[:, row]] for table, row in own]).swapaxes(1, 2)
            missing = np.bitwise_or.reduce([table.missing[[row]] for table, row in own])
            parts = recorded_by_all(stack, missing)[:, :, 0]
            limit = float(tolerance[first.stage][begin + place])
            different = apart(parts, ranks, Disagreement.STAGE, limit)
            if different:
                found[index, place] = different
    return found


def _compared(table: ParameterTable, begin: int, end: int) -> list[int]:
    """What a call puts out and the weights it has, by place in its record."""
    sections = (Section.OUTPUT, Section.PARAMETERS)
    rows = slice(begin, end)
    is_known = table.is_tensor[rows] & (table.missing[rows] != _ALL_MISSING)
    return np.flatnonzero(is_known & np.isin(table.section[rows], sections)).tolist()


def _is_alike(
    node: MergedNode,
    first: Call,
    other: Call,
    stages: Sequence[StageGraph],
    starts: Sequence[Int],
    tolerance: NDArray[np.float64],
) -> bool:
    """Whether two calls have records of one form, and were given the same."""
    tables = [stages[call.stage].table for call in (first, other)]
    bounds = (starts[call.stage][call.node : call.node + 2] for call in (first, other))
    rows = [slice(int(begin), int(end)) for begin, end in bounds]
    for column in ("section", "name_id", "shape_id", "dtype_id"):
        one, two = (getattr(table, column)[own] for table, own in zip(tables, rows, strict=True))
        if not np.array_equal(one, two):
            return False
    is_module_or_below = node.name.kind is Kind.MODULE or node.is_twin
    one, two = (table.value_id[own] for table, own in zip(tables, rows, strict=True))
    if not is_module_or_below and not np.array_equal(one, two):
        return False
    missing = tables[0].missing[rows[0]] | tables[1].missing[rows[1]]
    stack = np.array([one.statistics[:, at] for one, at in zip(tables, rows, strict=True)])
    shown, own = recorded_by_all(stack, missing)
    is_given = tables[0].is_tensor[rows[0]] & (tables[0].section[rows[0]] == Section.INPUT)
    return not bool((distances(own, shown)[is_given] > tolerance[is_given]).any())


def passed_on(
    nodes: Sequence[MergedNode], stages: Sequence[StageGraph]
) -> Mapping[tuple[int, int], tuple[Apart, ...]]:
    """What the ranks of a stage that is not shown differ in, of calls that stages ran alike."""
    said: dict[tuple[int, int], list[tuple[int, Apart]]] = defaultdict(list)
    for number, stage in enumerate(stages):
        begin = np.searchsorted(stage.table.node, np.arange(len(stage.tree) + 1))
        for row, several in stage.provenance.apart.items():
            own = int(stage.table.node[row])
            said[number, own] += [(row - int(begin[own]), one) for one in several]
    found: dict[tuple[int, int], tuple[Apart, ...]] = {}
    for index, node in enumerate(nodes if said else ()):
        if len(node.calls) < 2 or node.is_split:
            continue
        for call in node.calls[1:]:
            for place, one in said.get(call, ()):
                found[index, place] = (*found.get((index, place), ()), one)
    return found
