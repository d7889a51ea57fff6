"""Weights as a step begins with them, by names that tell them again in the next step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Section
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.result import PairResult

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Weights:
    """Paired rows of both tables, each weight once, where its step reads it first."""

    npu: Int
    bench: Int
    names: list[str]


def weights_of(result: PairResult) -> Weights | None:
    """The weights of both sides that have sketches; None where a side has no sketches."""
    assert result.bench is not None
    assert result.comparisons is not None
    debug, reference = result.npu.table, result.bench.table
    if debug.sketched is None or reference.sketched is None:
        return None
    pairs = result.comparisons.pairs
    there = np.full(len(debug), -1, dtype=np.int64)
    there[pairs.npu] = pairs.bench
    part = Part(result.npu.tree, debug)
    rows = _read(part)
    rows = rows[(there[rows] >= 0) & (debug.sketched.row[rows] >= 0)]
    rows = rows[reference.sketched.row[there[rows]] >= 0]
    rows = rows[debug.shape_id[rows] == reference.shape_id[there[rows]]]
    _, first = np.unique(_keys(part, rows), axis=1, return_index=True)
    rows = rows[np.sort(first)]
    texts = result.texts.values
    other = Part(result.bench.tree, reference)
    names = [
        _of_both(_name(part, row, texts), _name(other, int(there[row]), texts))
        for row in rows.tolist()
    ]
    return Weights(rows, there[rows], names)


def _read(part: Part) -> Int:
    """Rows that are weights: of modules, and those that calls are given themselves."""
    table, forward = part.table, part.calls.direction == Direction.FORWARD
    found = table.section == Section.PARAMETERS
    if table.origins is not None:
        held = (table.origins.kind == Maker.PARAMETER) & (table.origins.name >= 0)
        found |= held & (table.section == Section.INPUT)
    return np.flatnonzero(found & table.is_tensor & forward[table.node])


def _keys(part: Part, rows: Int) -> Int:
    """What tells weights apart, (2, n)."""
    table = part.table
    module = part.calls.stem[table.node[rows]].astype(np.int64)
    keys = np.stack([module, table.name_id[rows].astype(np.int64)])
    if table.origins is not None:
        name = table.origins.name[rows].astype(np.int64)
        keys = np.where(name >= 0, np.stack([name - len(table) - 1, 0 * name]), keys)
    return keys


def _of_both(own: str, theirs: str) -> str:
    """One name where it is the same: in another step a weight may be paired with another one."""
    return own if own == theirs else f"{own} / {theirs}"


def _name(part: Part, row: int, texts: list[str]) -> str:
    """The name that the recorder knows it by; else its module's and its own."""
    table, calls = part.table, part.calls
    if table.origins is not None and table.origins.name[row] >= 0:
        return table.origins.names[int(table.origins.name[row])]
    return f"{calls.stems[int(calls.stem[table.node[row]])]}.{texts[table.name_id[row]]}"
