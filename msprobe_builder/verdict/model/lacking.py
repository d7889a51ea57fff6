"""Tensors and gradients that one side alone has."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import operations
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_LACKING = 60.0  # a tensor on one side alone
_HABIT = 3  # calls of one operator


def of_lacking(runs: Runs) -> Iterable[Clue]:
    """Calls of which one side is given a tensor, or puts one out, where the other has none."""
    kinds = [_what_stands(one.table) for one in (runs.npu, runs.bench)]
    calls = runs.npu.calls
    nodes = np.flatnonzero(calls.is_api & (runs.partner >= 0)).tolist()
    lacking = []
    for node in nodes:
        own, theirs = kinds[0].get(node, {}), kinds[1].get(int(runs.partner[node]), {})
        if any(own[place] != theirs[place] for place in own.keys() & theirs.keys()):
            lacking.append(node)
    # What most calls of an operator have is a habit, of casts or of a recorder.
    kind = operations(calls)
    times = np.bincount(kind[lacking], minlength=int(kind.max(initial=0)) + 1)
    of_all = np.bincount(kind[nodes], minlength=len(times))
    for node in lacking:
        if times[kind[node]] >= _HABIT and 2 * times[kind[node]] > of_all[kind[node]]:
            continue
        cause = Cause.GRADIENT if runs.backward[node] else Cause.ARGUMENT
        yield Clue(_LACKING, 0, node, cause, -1)


def cut_off(runs: Runs, rows: Int) -> Iterable[Clue]:
    """The first call from which on one side alone keeps what gradients need.

    ``rows`` need a gradient on one side only. That alone is no news of data, or of what nobody
    derives; where the forward call has a gradient on one side alone it is.
    """
    table = runs.npu.table
    calls, others = runs.npu.calls, runs.bench.calls
    for row in rows[~runs.discrete[rows]].tolist():
        node = int(table.node[row])
        other = int(runs.partner[node])
        if other < 0 or calls.direction[node] != Direction.FORWARD or not calls.is_api[node]:
            continue
        if table.section[row] == Section.OUTPUT:
            yield Clue(_LACKING, 0, node, Cause.GRADIENT, row)
            return
        for side, part, partner, made in (
            (0, runs.npu, runs.partner, int(runs.origin[row])),
            (1, runs.bench, runs.bench_partner, int(runs.bench_origin[runs.other[row]])),
        ):
            maker = int(part.table.node[made]) if made >= 0 else -1
            if maker >= 0 and partner[maker] < 0:
                yield Clue(_LACKING, side, maker, Cause.GRADIENT, row)
                return
        if (calls.twin[node] >= 0) != (others.twin[other] >= 0):
            yield Clue(_LACKING, 0, node, Cause.GRADIENT, row)
            return


def _what_stands(table: ParameterTable) -> dict[int, dict[tuple[int, int], bool]]:
    result: dict[int, dict[tuple[int, int], bool]] = {}
    chosen = np.flatnonzero(np.isin(table.section, (Section.INPUT, Section.OUTPUT)))
    columns = (table.node, table.section, table.position, table.is_tensor)
    for node, section, position, is_tensor in zip(
        *(one[chosen].tolist() for one in columns), strict=True
    ):
        result.setdefault(node, {})[section, position] = is_tensor
    return result
