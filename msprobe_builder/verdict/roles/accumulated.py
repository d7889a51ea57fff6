"""Gradients that several passes have added to: no call puts these out.

A parameter keeps the sum of what all passes of a step, and all its uses, have given back. Who
reads it outside of all modules, to clip it or to train, is given a tensor that was recorded
nowhere. It is made of the gradients of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import has_own_gradient
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.verdict.differences.distance import WORST
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import NONE
from msprobe_builder.verdict.roles.columns import elements, made_by_both

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# Single gradients that cancel are known as such; that sums of several cancel as well is seldom.
_CANCELLED = 8.0


class Gradients:
    """What the passes have put out so far, by shape; looked for where it is asked for alone."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._rows: dict[int, list[int]] | None = None
        self._worst: dict[int, tuple[int, float, float, int]] = {}
        calls = flow.npu.calls
        self._is_module: Sequence[bool] = elements(calls.is_module)
        self._kinds: Sequence[int] = elements(calls.kind)
        self._directions: Sequence[int] = elements(calls.direction)
        self._parent: Sequence[int] = elements(flow.npu.tree.parent)
        self._made_by_both: Sequence[bool] = elements(made_by_both(flow))
        self._last = int(np.flatnonzero(calls.direction == Direction.BACKWARD).max(initial=-1))

    def are_read_by(self, node: int) -> bool:
        """Whether it reads gradients: a call of an optimizer, of clipping, or behind all passes.

        What a model calls outside of its modules stands between passes and reads none.
        """
        parent = self._parent[node]
        if self._is_module[node] or (parent > 0 and self._directions[parent] != Direction.NONE):
            return False
        in_optimizer = parent > 0 and self._kinds[parent] != Kind.COLLECTION
        return in_optimizer or node > self._last

    def summed(self, row: int, latent: Sequence[float], root: Sequence[int]) -> tuple[float, int]:
        """The error that a row may hold if it is such a sum, and its root.

        The calls of several optimizers stand together, some before the passes that they follow:
        of gradients that come later in the order of rows what is seen counts.
        """
        if self._rows is None:
            self._rows = _gradients(self._flow)
        shape = int(self._flow.npu.table.shape_id[row])
        rows = self._rows.get(shape, [])
        if not rows:
            return NONE
        known, amount, error, source = self._worst.get(shape, (0, 0.0, 0.0, -1))
        while known < len(rows) and rows[known] < row:
            one = rows[known]
            if latent[one] > error:
                error, source = latent[one], root[one]
            amount = max(amount, latent[one] * float(self._flow.scale[one]))
            known += 1
        self._worst[shape] = known, amount, error, source
        if known < len(rows):
            later = np.nan_to_num(self._flow.error[rows[known:]])
            error = max(error, float(later.max()))
            amount = max(amount, float((later * self._flow.scale[rows[known:]]).max()))
        if self._made_by_both[row] and (source < 0 or self._is_made_forward(row)):
            return NONE  # a call that was compared has put it out: it holds nothing else
        size = float(self._flow.scale[row])
        cancelled = min(amount / size, _CANCELLED * error) if size > 0 else error
        return min(max(error, cancelled), WORST), source

    def _is_made_forward(self, row: int) -> bool:
        """Whether its counterpart comes from a call that gives no gradient back."""
        flow = self._flow
        made = int(flow.bench_producer[flow.bench_of[row]])
        return bool(flow.bench.calls.direction[flow.bench.table.node[made]] == Direction.FORWARD)


def uneven_gradients(flow: Flow) -> frozenset[int]:
    """Rows of parameters' gradients whose module gives back more often on one side.

    They are sums of other numbers of terms: what one side calls more often is to blame.
    """
    table = flow.npu.table
    rows = np.flatnonzero((table.section == Section.PARAMETERS_GRAD) & (flow.bench_of >= 0))
    debug, reference = table.node[rows], flow.bench.table.node[flow.bench_of[rows]]
    counts = [
        _times_given_back(part, of) for part, of in ((flow.npu, debug), (flow.bench, reference))
    ]
    uneven = (counts[0] != counts[1]) & (counts[0] > 0) & (counts[1] > 0)
    return frozenset(rows[uneven].tolist())


def given_back_beside(flow: Flow) -> dict[int, tuple[int, ...]]:
    """By module in the backward pass its other calls of the same pass.

    What they give back to its parameters is one sum, which stands at one of them, often the first.
    Where functions with a derivative of their own are called inside, theirs as well: no module is
    around them in backward. Modules that share a matrix, as words do that are foretold, too.
    """
    tree, calls = flow.npu.tree, flow.npu.calls
    back = np.flatnonzero(calls.is_module & (calls.direction == Direction.BACKWARD))
    groups: dict[tuple[int, int], list[int]] = {}
    tied = _of_one_matrix(flow)
    for node in back.tolist():
        stem = int(calls.stem[node])
        groups.setdefault((tied.get(stem, stem), int(tree.micro_step[node])), []).append(node)
    found = {
        node: tuple(one for one in several if one != node)
        for several in groups.values()
        if len(several) > 1
        for node in several
    }
    own = np.flatnonzero(calls.is_forward_call & (calls.of_stems(has_own_gradient) == 1))
    for node in own[calls.twin[own] >= 0].tolist():
        around = int(calls.twin[tree.parent[node]])
        if around >= 0:
            found[around] = (*found.get(around, ()), int(calls.twin[node]))
    return found


def _of_one_matrix(flow: Flow) -> dict[int, int]:
    """By module, as a number of its stem, the first one that holds the same matrix."""
    table, calls = flow.npu.table, flow.npu.calls
    rows = (table.section == Section.PARAMETERS) & table.is_tensor & ~flow.is_line
    rows &= flow.informative  # matrices that hold one number everywhere are alike by chance
    rows &= calls.is_module[table.node]
    first: dict[tuple[int, bytes], int] = {}
    found: dict[int, int] = {}
    for row in np.flatnonzero(rows).tolist():
        stem = int(calls.stem[table.node[row]])
        found.setdefault(stem, first.setdefault(_numbers(table, row), stem))
    return {stem: one for stem, one in found.items() if stem != one}


def _times_given_back(part: Part, nodes: Int) -> Int:
    """How often the modules around nodes were called in the backward pass."""
    calls = part.calls
    back = calls.is_module & (calls.direction == Direction.BACKWARD)
    counts = np.bincount(calls.stem[back], minlength=len(calls.stems))
    return np.asarray(counts[calls.stem[part.tree.parent[nodes]]])


def _gradients(flow: Flow) -> dict[int, list[int]]:
    """Rows of gradients by their shape, in order."""
    table, calls = flow.npu.table, flow.npu.calls
    back = (calls.direction == Direction.BACKWARD)[table.node]
    back &= table.section == Section.OUTPUT
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(
        table.is_tensor & (back | (table.section == Section.PARAMETERS_GRAD))
    ):
        found.setdefault(int(table.shape_id[row]), []).append(int(row))
    return found


def made_inside(flow: Flow, inside: Bool) -> dict[int, list[int]]:
    """Of functions with a derivative of their own, in backward: rows of what they give back.

    ``inside`` are the calls that such functions make there. They stand beside the function, before
    it or behind, and are known by what they put out: the function gives back the same numbers.
    """
    table, calls = flow.npu.table, flow.npu.calls
    is_output = table.is_tensor & (table.section == Section.OUTPUT)
    made = np.flatnonzero(inside[table.node] & is_output)
    if not len(made):
        return {}
    own = calls.of_stems(has_own_gradient) == 1
    own &= calls.direction == Direction.BACKWARD
    known = {_numbers(table, row): row for row in made.tolist()}
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(own[table.node] & is_output).tolist():
        if (source := known.get(_numbers(table, row))) is not None:
            found.setdefault(int(table.node[row]), []).append(source)
    return found


def _numbers(table: ParameterTable, row: int) -> tuple[int, bytes]:
    return int(table.shape_id[row]), table.statistics[:, row].tobytes()
