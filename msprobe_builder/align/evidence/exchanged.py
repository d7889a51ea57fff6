"""Pairs of equal names that put out what another call of the other side puts out.

Where the lines of a module stand in another order, its calls are counted in another order, and all
names are there on both sides none the less; so are the calls of a module that is called more than
once. What they put out tells: it is not what the namesake puts out, but what another one does that
has not found its own either.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.tolerances import EQUAL, NEAR
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.side import Side
from msprobe_builder.match.hashing import mixed
from msprobe_builder.match.outline import Outline
from msprobe_builder.operators.operator import Kind as Does

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_MAX, _MIN, _NORM = 0, 1, 3
_ANYWHERE = -1
_TAKING = {Does.SLICE, Does.PICK}
_STEPS = 2000  # of a logarithm; equal statistics share one but where they lie at its edge


def exchanged_places(
    npu: Side,
    bench: Side,
    outline: Outline,
    other_outline: Outline,
    partner: Int,
    sites: tuple[Int, Int],
) -> Bool:
    """Which forward calls are paired with one that puts out clearly another tensor by mistake.

    The partner of their host has one call of the same operator that puts out the same tensor, and
    that call is as badly paired; or a module of the same name was called with that result in the
    same micro-step. A call of a line that both sides have stays with that line: what it puts out
    otherwise has another fault than its place, unless the line is one of a loop.
    """
    result = np.zeros(len(partner), dtype=bool)
    rows, other_rows = _first_outputs(npu, outline), _first_outputs(bench, other_outline)
    calls = np.flatnonzero((partner >= 0) & (rows >= 0))
    calls = calls[other_rows[partner[calls]] >= 0]
    apart = ~_agree(npu, bench, rows[calls], other_rows[partner[calls]], NEAR)
    calls = calls[apart]
    if len(calls) < 2:
        return result
    stems: dict[str, int] = {}
    hosts = np.where(outline.kind[calls] == Kind.API, partner[outline.host[calls]], _ANYWHERE)
    keys = _keys(npu, calls, rows, hosts, stems)
    others = partner[calls]
    is_call = other_outline.kind[others] == Kind.API
    other_hosts = np.where(is_call, other_outline.host[others], _ANYWHERE)
    other_keys = _keys(bench, others, other_rows, other_hosts, stems)
    other_keys, first, count = np.unique(other_keys, return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(other_keys, keys), len(other_keys) - 1)
    found = (other_keys[place] == keys) & (count[place] == 1)
    calls, others = calls[found], others[first[place[found]]]
    own, there = sites[0][calls], sites[1]
    same_line = (own > 0) & (own == there[partner[calls]])
    # Which part a call takes stands in its arguments.
    tells = outline.tree.calls.are(lambda one: one.kind in _TAKING)[calls]
    stays = same_line & ((own != there[others]) | tells)
    moves = _agree(npu, bench, rows[calls], other_rows[others], EQUAL) & ~stays
    # Calls of one line trade places among themselves, or they do not.
    trades, given = moves & same_line, partner[calls]
    closed = np.isin(others, given[trades]) & np.isin(given, others[trades])
    calls = calls[moves & (closed | ~same_line)]
    # What was called inside a call that exchanged places did, too.
    change = np.zeros(len(partner) + 1, dtype=np.int64)
    np.add.at(change, calls, 1)
    np.add.at(change, outline.tree.subtree_end[calls] + 1, -1)
    return np.asarray(np.cumsum(change)[:-1] > 0)


def _first_outputs(side: Side, outline: Outline) -> Int:
    """The row of the first output of each forward call that says something, -1 elsewhere."""
    table = side.table
    rows = np.flatnonzero((table.section == Section.OUTPUT) & table.is_tensor)
    norm = table.statistics[_NORM, rows]
    known = np.isfinite(norm) & (norm > 0) & (table.numel[rows] > 1)
    if table.md5:
        known |= np.isin(rows, np.fromiter(table.md5, dtype=np.int64))
    rows = rows[known][::-1]
    result = np.full(len(outline), -1, dtype=np.int64)
    result[table.node[rows]] = rows
    is_forward = side.tree.calls.direction == Direction.FORWARD
    result[(outline.kind == Kind.COLLECTION) | ~is_forward] = -1
    return result


def _agree(npu: Side, bench: Side, a: Int, b: Int, tolerance: float) -> Bool:
    """Whether the tensors of rows have the same checksum, or statistics within a tolerance."""
    if npu.table.md5 and bench.table.md5:
        texts, other_texts = npu.table.md5, bench.table.md5
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        same = [i in texts and texts[i] == other_texts.get(j) for i, j in pairs]
        return np.array(same, dtype=bool)
    which = [_NORM, _MAX, _MIN]
    x, y = npu.table.statistics[which][:, a], bench.table.statistics[which][:, b]
    with np.errstate(invalid="ignore"):
        scale = np.fmax(np.abs(x), np.abs(y))
        scale[1:] = np.fmax(scale[1], scale[2])
        apart = np.where(x == y, 0.0, np.abs(x - y)) > tolerance * scale
    same_size = npu.table.numel[a] == bench.table.numel[b]
    return np.asarray(same_size & ~apart.any(axis=0))


def _keys(
    side: Side, calls: Int, rows: Int, hosts: Int, stems: dict[str, int]
) -> NDArray[np.uint64]:
    table, rows = side.table, rows[calls]
    stem = [stems.setdefault(side.tree.parsed[call].stem, len(stems)) for call in calls.tolist()]
    if table.md5:
        value = np.array(
            [crc32(table.md5.get(row, "").encode()) for row in rows.tolist()], np.int64
        )
    else:
        value = np.round(np.log(table.statistics[_NORM, rows]) * _STEPS).astype(np.int64)
    step = side.tree.micro_step[calls]
    return mixed(hosts, step, np.array(stem, dtype=np.int64), value)
