"""Calls that one side alone makes, as what stands between tensors and their makers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_UNUSED_NEAR = 60


def unmatched(part: Part, partner: Int) -> Bool:
    return np.asarray((part.calls.is_api | part.calls.is_module) & (partner < 0))


def of_unmatched(runs: Runs, clue: Clue, side: int, node: int) -> Clue:
    """The clue as one of a call that one side alone makes: the forward one, where it has one."""
    part, partner, *_ = runs.sides[side]
    twin = int(part.calls.twin[node])
    if part.calls.direction[node] == Direction.BACKWARD and twin >= 0 and partner[twin] < 0:
        node = twin
    return replace(clue, side=side, node=node, cause=Cause.MISSING if side else Cause.EXTRA)


def made_outside(runs: Runs, row: int) -> bool:
    """Whether a call outside of all modules has made what the module of a row is given.

    What takes no part in training may be data.
    """
    table = runs.npu.table
    if row < 0 or table.section[row] != Section.INPUT:
        return False
    return bool(table.requires_grad[row] == 1 or runs.backward[table.node[row]])


def maker_guessed(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor that nobody knows the maker of: a call nearby whose output nobody uses."""
    if runs.backward[clue.node]:
        return clue
    for side in (1, 0):
        part = runs.sides[side].part
        here = clue.node if side == 0 else int(runs.partner[clue.node])
        near = _unused(runs, side)
        near = near[(near < here) & (here - near < _UNUSED_NEAR)]
        if here >= 0 and len(near):
            beside = near[part.tree.parent[near] == part.tree.parent[here]]
            node = int(beside[0]) if len(beside) else int(near[-1])
            return of_unmatched(runs, clue, side, node)
    return clue


def written_by(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor whose maker one side alone knows: the last call of the other that writes to such.

    What a call writes into a tensor nobody records, so that it comes from nowhere afterwards.
    """
    row, other = clue.row, int(runs.other[clue.row])
    unknown = (int(runs.origin[row]) < 0, other >= 0 and int(runs.bench_origin[other]) < 0)
    if unknown[0] == unknown[1] or runs.backward[clue.node]:
        return clue
    side = int(unknown[1])
    part, partner, *_ = runs.sides[side]
    table, here = part.table, clue.node if side == 0 else int(runs.partner[clue.node])
    writes = part.calls.apis(is_in_place)
    writes &= part.calls.is_forward_call & (partner < 0)
    given = (row, other)[side]
    alike = (table.section == Section.INPUT) & (table.position == 0) & writes[table.node]
    alike &= (table.shape_id == table.shape_id[given]) & (table.node < here)
    nodes = table.node[alike]
    return of_unmatched(runs, clue, side, int(nodes[-1])) if len(nodes) else clue


def _unused(runs: Runs, side: int) -> Int:
    """Forward calls of one side alone whose outputs nobody is known to use."""
    part, partner, _, maker, _ = runs.sides[side]
    used = np.zeros(len(part.tree), dtype=bool)
    used[part.table.node[maker[maker >= 0]]] = True
    return np.flatnonzero(part.calls.is_forward_call & (partner < 0) & ~used)
