"""What data and what calls of both sides belong together, as it is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.match.matching import Group

_SAME = 1e-6  # of statistics of the same data; the order of summation may differ
_SHOWN_CALLS = 6


def micro_step_of_same(debug: ParameterTable, bench: Part, row: int, other: int) -> int:
    """The only micro-step in which the same call of the reference is given the tensor, else -1.

    ``row`` is of ``debug``, ``other`` the row of the reference that it is compared with.
    """
    if other < 0:
        return -1
    table, tree = bench.table, bench.tree
    rows = np.flatnonzero(
        (table.name_id == table.name_id[other])
        & (table.section == table.section[other])
        & (table.shape_id == debug.shape_id[row])
        & (tree.micro_step[table.node] != tree.micro_step[table.node[other]])
    )
    if row in debug.md5:
        rows = rows[[table.md5.get(one) == debug.md5[row] for one in rows.tolist()]]
    else:
        values, others = debug.statistics[:, row, None], table.statistics[:, rows]
        same = np.isclose(values, others, _SAME, 0.0, equal_nan=True).all(axis=0)
        rows = rows[same & np.isfinite(values).any()]
    stem = tree.parsed[table.node[other]].stem
    steps = {
        int(tree.micro_step[node])
        for node in table.node[rows].tolist()
        if tree.parsed[node].stem == stem
    }
    return steps.pop() if len(steps) == 1 else -1


def told_of_group(group: Group, names: Sequence[str], reference_names: Sequence[str]) -> list[Fact]:
    """Which calls are judged as one because only together they have a counterpart."""
    debug, reference = (
        [name for name in (several[node] for node in nodes) if name]
        for several, nodes in ((names, group.npu), (reference_names, group.bench))
    )
    if len(group.npu) > 1:
        return [fact("group.judged_as_one", own=_listed(debug), theirs=_listed(reference))]
    if len(reference) > 1:
        return [fact("group.several_in_place", theirs=_listed(reference))]
    return [fact("group.one_place", theirs=_listed(reference))]


def _listed(names: list[str]) -> Fact | list[str]:
    more = len(names) - _SHOWN_CALLS
    return names if more <= 0 else fact("and_more", names=names[:_SHOWN_CALLS], more=more)
