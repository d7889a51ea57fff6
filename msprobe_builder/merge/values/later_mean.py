"""Gradients that a schedule divides by the number of micro-batches behind its backward passes.

A single rank mostly divides the loss instead, before each backward pass. Up to the division every
gradient of the schedule is then as many times that of the other run. For the comparison they are
divided, and the recipe says so. Three things are proven first: each gradient is divided in place,
once, by one number; the other side divides each loss by this number right before
it goes back, and this side does not; and most gradients are that many times the other side's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.part import Part, outermost
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.values.own_tokens import with_reason, works_in_backward
from msprobe_builder.operators.questions import one_of
from msprobe_builder.operators.table import is_in_place

Int = NDArray[np.int64]
_NEAR = 1e-2
_NORM = 3
_divides = one_of("div")
_seeds = one_of("ones_like")


def with_mean_of_passes(side: Side, other: Side, texts: Texts) -> Side:
    """The side with gradients as if it had divided the loss, where it divides them later.

    Not with files at hand: the elements in them would not be divided.
    """
    provenance = side.provenance
    if provenance is None or provenance.assemblies or works_in_backward(side):
        return side
    count = _divided_later(side, texts)
    is_of_loss = count is not None and _divided_losses(other, texts) == {count}
    if count is None or not is_of_loss or _divided_losses(side, texts):
        return side
    if not _is_times(side, other, count):
        return side
    table, calls = side.table, side.tree.calls
    of_loss = (calls.direction == Direction.BACKWARD)[table.node]
    of_loss |= table.section == Section.PARAMETERS_GRAD
    # What a backward pass begins with is made in the form of the loss.
    seeds = calls.are(_seeds)[table.node] & (table.section == Section.INPUT)
    of_loss |= seeds & (table.numel == 1) & (table.requires_grad != 0)
    rows = np.flatnonzero(of_loss & table.is_tensor & ~np.isnan(table.statistics).all(axis=0))
    statistics = table.statistics.copy()
    statistics[:, rows] /= count
    recipes = dict(provenance.recipes)
    why = fact("reason.mean_of_passes", count=count)
    for row in rows.tolist():
        recipes[row] = with_reason(recipes.get(row, ()), why)
    return replace(
        side,
        table=replace(table, statistics=statistics),
        provenance=replace(provenance, recipes=recipes),
    )


def _divided_later(side: Side, texts: Texts) -> int | None:
    """By which number each gradient is divided in place, once, when a stage is through with it."""
    table, calls = side.table, side.tree.calls
    is_outside = outermost(Part(side.tree, table))
    writes = calls.of_stems(is_in_place) == 1
    shapes: Counter[int] = Counter()
    counts = set()
    for node in np.flatnonzero(calls.are(_divides) & calls.is_forward_call & writes & is_outside):
        given, count = _quotient(side, int(node), texts)
        if count is not None and given is not None and table.requires_grad[given] != 1:
            shapes[int(table.shape_id[given])] += 1
            counts.add(count)
    own = Counter(int(table.shape_id[row]) for row in _gradients(side).values())
    return counts.pop() if len(counts) == 1 and own == shapes else None


def _divided_losses(side: Side, texts: Texts) -> set[int]:
    """The numbers by which losses are divided right before they go back."""
    calls = side.tree.calls
    is_back = calls.direction == Direction.BACKWARD
    found = set()
    for node in np.flatnonzero(calls.are(_divides) & calls.is_forward_call & (calls.twin >= 0)):
        given, count = _quotient(side, int(node), texts)
        is_single = given is not None and side.table.numel[given] == 1
        if count is not None and is_single and not is_back[node : int(calls.twin[node])].any():
            found.add(count)
    return found


def _quotient(side: Side, node: int, texts: Texts) -> tuple[int | None, int | None]:
    """The row of what a call divides, and the whole number above 1 by which it does."""
    table = side.table
    rows = np.arange(*np.searchsorted(table.node, [node, node + 1]).tolist())
    rows = rows[table.section[rows] == Section.INPUT]
    tensors, plain = rows[table.is_tensor[rows]], rows[~table.is_tensor[rows]]
    if len(tensors) != 1 or not len(plain):
        return None, None
    text = texts.values[int(table.value_id[plain[0]])] if table.value_id[plain[0]] >= 0 else ""
    try:
        number = float(text)
    except ValueError:
        return None, None
    return int(tensors[0]), int(number) if number > 1 and number == int(number) else None


def _gradients(side: Side) -> dict[tuple[str, int], int]:
    """The row of the last gradient of each parameter, by the stem of its module and its name."""
    table, parsed = side.table, side.tree.parsed
    rows = np.flatnonzero((table.section == Section.PARAMETERS_GRAD) & table.is_tensor)
    return {
        (parsed[int(table.node[row])].stem.partition(".parameters_grad")[0], int(name)): int(row)
        for row, name in zip(rows.tolist(), table.name_id[rows].tolist(), strict=True)
    }


def _is_times(side: Side, other: Side, count: int) -> bool:
    """Whether most gradients of parameters are so many times those of the other side."""
    sizes = [
        np.sort(one.table.statistics[_NORM, list(_gradients(one).values())])
        for one in (side, other)
    ]
    if not len(sizes[0]) or len(sizes[0]) != len(sizes[1]):
        return False
    with np.errstate(all="ignore"):
        near = np.abs(sizes[0] / sizes[1] / count - 1) < _NEAR
    return bool(near.mean() > 0.5)
