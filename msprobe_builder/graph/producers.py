"""Where each input came from: the call that put out the same tensor before.

A dump does not say which tensor is which, but two recordings of one tensor have equal statistics,
shape and type; where checksums alone were recorded, equal checksums. The producer of an input is
the latest call that had finished by then and put out a tensor with the same fingerprint. What a
module is given, and its weights, count as handed on to the calls inside. Where no fingerprint fits
exactly one without shape and order of summation is tried: views that were not recorded change the
one, contiguous copies the other. A call that writes to what it is given and puts out nothing may
change any of these: what comes of that is no longer its maker's. It is known by its extremes, or by
its shape alone in the same module.

Where the collector recorded who made a tensor, that stands in place of all of it.
"""

from __future__ import annotations

from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import Origins, ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.operators.questions import is_uninitialised

Int = NDArray[np.int64]
_Hash = NDArray[np.uint64]

_MAX, _MIN, _MEAN, _NORM = range(4)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xBF58476D1CE4E5B9)
_SIEVE_BITS = 20


def producers(tree: Tree, calls: Calls, table: ParameterTable) -> Int:
    """The row that produced the tensor of each input row, -1 where none is known.

    The output of a module comes from the call inside that put it out, a parameter's gradient from
    the call that made it, a parameter from the call that has changed it in this step, such as that
    of an optimizer. Other outputs have none.
    """
    sums = _checksums(table)
    tensor = table.is_tensor & (table.missing & 3 == 0)
    for one in sums:
        tensor |= table.is_tensor & (one > 0)
    is_input = tensor & (table.section == Section.INPUT)
    is_output = tensor & (table.section == Section.OUTPUT)
    is_module = calls.is_module
    is_weight = tensor & (table.section == Section.PARAMETERS)
    handed = (is_input | is_weight) & is_module[table.node]
    at_start, weights_at_start = is_input, is_weight
    inner = tree.subtree_end > np.arange(len(tree))
    is_gradient = tensor & (table.section == Section.PARAMETERS_GRAD)
    passed_on = (is_output & (inner & is_module)[table.node]) | is_gradient
    # Of a million calls each column of rows takes 25 MB with 64 bits.
    result: NDArray[Any] = np.full(len(table), -1, dtype=np.int32)
    # Flat tensors say nothing: all zeros and all masks are alike.
    tells = table.statistics[_MAX] != table.statistics[_MIN]
    exact = _hash([table.shape_id, table.dtype_id, *sums], table.statistics)
    loose = _hash([table.numel.view(np.int64), *sums], table.statistics[:2])
    written = is_input & calls.apis(_writes)[table.node] & (table.position == 0)
    if table.origins is not None:
        _take_recorded(tree, table, table.origins, handed, passed_on, result)
        anew = _written_unseen(calls, table, result)
        result[anew] = -1
        told = table.origins.settled & ~anew
        is_input, passed_on, is_weight = is_input & ~told, passed_on & ~told, is_weight & ~told
    passes = [
        (exact, is_input | passed_on, is_output | handed),
        (loose, (is_input | passed_on) & tells, is_output | handed | written),
    ]
    # Of a tensor that is spread over ranks the shape is of the whole, the numbers are of a part.
    of_parts = _hash([table.dtype_id, *sums], table.statistics)
    passes.append((of_parts, is_input & tells, is_output | handed))
    if written.any():
        parent = tree.parent[table.node]
        beside = _hash([table.shape_id, table.dtype_id, parent], table.statistics[:0])
        passes.append((beside, is_input & tells, written))
    for fingerprint, allowed, made in passes:
        wanted = np.flatnonzero(allowed & (result < 0))
        given = np.flatnonzero(made)
        if not len(wanted) or not len(given):
            continue
        result[wanted] = _latest(tree, table, fingerprint, wanted, given, handed, at_start)
    changing = calls.apis(_changes_what_it_is_given)
    # One number tells, too, if it is none that many tensors are.
    number = np.abs(table.statistics[_MAX])
    told = tells | ((table.numel == 1) & (number != 0) & (number != 1))
    given = np.flatnonzero(is_output & changing[table.node] & told)
    wanted = np.flatnonzero(is_weight & told)
    if len(wanted) and len(given):
        result[wanted] = _latest(tree, table, exact, wanted, given, handed, weights_at_start)
    return result


def _take_recorded(
    tree: Tree,
    table: ParameterTable,
    origins: Origins,
    handed: NDArray[np.bool_],
    passed_on: NDArray[np.bool_],
    result: NDArray[Any],
) -> None:
    """Fill in where tensors came from as far as it was recorded.

    They are found at the latest place before, as what a module is given is handed on inside.
    """
    is_input = table.is_tensor & (table.section == Section.INPUT)
    is_output = table.is_tensor & (table.section == Section.OUTPUT)
    known = origins.same >= 0
    wanted = np.flatnonzero((is_input | passed_on) & known)
    given = np.flatnonzero((handed | (is_output & ~origins.hands_on)) & known)
    if len(wanted) and len(given):
        same = _hash([origins.same], table.statistics[:0])
        result[wanted] = _latest(tree, table, same, wanted, given, handed, is_input)
    rest = is_input | passed_on | (table.is_tensor & (table.section == Section.PARAMETERS))
    rest &= (result < 0) & (origins.maker >= 0)
    result[rest] = origins.maker[rest]


def _written_unseen(calls: Calls, table: ParameterTable, result: NDArray[Any]) -> Any:
    """Rows that were handed out as memory without content, and hold something else by now.

    A call has written to them of which torch counted no write, as below a dispatch mode.
    """
    written = np.zeros(len(table), dtype=bool)
    fresh = calls.are(is_uninitialised)
    if fresh.any():
        made = np.flatnonzero(result >= 0)
        made = made[fresh[table.node[result[made]]]]
        now, then = (table.statistics[:_MEAN, rows] for rows in (made, result[made]))
        written[made] = ~((now == then) | (np.isnan(now) & np.isnan(then))).all(axis=0)
    return written


def _checksums(table: ParameterTable) -> list[Int]:
    """A column with a number above 0 for the checksum of each row without extremes, else 0.

    None of it where no row has a checksum alone, as in most dumps.
    """
    bare = np.flatnonzero(table.missing & 3 == 3).tolist() if table.md5 else []
    found = {row: text for row in bare if (text := table.md5.get(row))}
    if not found:
        return []
    result = np.zeros(len(table), dtype=np.int64)
    result[list(found)] = [crc32(text.encode()) + 1 for text in found.values()]
    return [result]


def _changes_what_it_is_given(stem: str) -> bool:
    """Whether the name is that of a call in place: ``addcdiv_``, no ``__add__``."""
    return stem.endswith("_") and not stem.endswith("__")


def _writes(stem: str) -> bool:
    """Whether it assigns to a part of a tensor, of which nothing is recorded behind the call."""
    return stem.endswith(".__setitem__")


def _latest(
    tree: Tree,
    table: ParameterTable,
    fingerprint: _Hash,
    wanted: Int,
    given: Int,
    handed: NDArray[np.bool_],
    at_start: NDArray[np.bool_],
) -> Int:
    """For each wanted row the last given one before it with the same fingerprint.

    Those ``at_start`` were there when their call began, others only when it ended.
    """
    node = table.node
    given = given[_may_be_among(fingerprint[given], fingerprint[wanted])]
    # Inner calls end before outer ones although their last node is the same.
    width = 2 * int(tree.depth.max(initial=0)) + 6
    begins = width * np.arange(len(tree))
    ends = width * tree.subtree_end + width - 2 - 2 * tree.depth
    begin = np.where(at_start[wanted], begins[node[wanted]], ends[node[wanted]] - 1)
    end = np.where(handed[given], begins[node[given]] + 1, ends[node[given]])
    row = np.concatenate([given, wanted])
    moment = np.concatenate([end, begin])
    del begins, ends, begin, end  # of a million calls each column of rows takes 25 MB
    order = np.argsort(moment, kind="stable")
    del moment
    places, others = _grouped(fingerprint[row[order]])
    order = order[places]
    place = np.arange(len(order), dtype=np.int32)
    last = np.maximum.accumulate(np.where(order < len(given), place, -1))
    first = np.maximum.accumulate(np.where(others, place, 0))  # with the same fingerprint
    known = np.flatnonzero((last >= first) & (order >= len(given)))
    found = np.full(len(wanted), -1)
    found[order[known] - len(given)] = row[order[last[known]]]
    return found


def _may_be_among(several: _Hash, others: _Hash) -> NDArray[np.bool_]:
    """False only of fingerprints that are not among the others: those need not be sorted."""
    shift = np.uint64(64 - _SIEVE_BITS)
    sieve = np.zeros(1 << _SIEVE_BITS, dtype=bool)
    sieve[others >> shift] = True
    return np.asarray(sieve[several >> shift])


def _grouped(fingerprint: _Hash) -> tuple[Int, NDArray[np.bool_]]:
    """The places of equal fingerprints one behind another, those of each in their order.

    And which of them are the first of theirs. One number holds the first bits of a fingerprint and
    its place, as numbers are sorted in a fraction of the time that it takes to sort places by them.
    """
    bits = np.uint64(len(fingerprint).bit_length())
    both = fingerprint >> bits
    both <<= bits
    both |= np.arange(len(fingerprint), dtype=np.uint64)
    both.sort()
    order = (both & (np.uint64(1) << bits) - np.uint64(1)).view(np.int64)
    both >>= bits
    alike = both[1:] == both[:-1]
    del both
    found = fingerprint[order]
    others = np.ones(len(found), dtype=bool)
    others[1:] = found[1:] != found[:-1]
    if (others[1:] & alike).any():  # others with the same first bits
        order = np.argsort(fingerprint, kind="stable")
        found = fingerprint[order]
        others[1:] = found[1:] != found[:-1]
    return order, others


def _hash(columns: list[Int], statistics: NDArray[np.float64]) -> _Hash:
    """One number for the columns and statistics of each row."""
    result = np.full(statistics.shape[1], _SEED, dtype=np.uint64)
    numbers = ((one + 0.0).view(np.uint64) for one in statistics)  # -0.0 is 0.0
    with np.errstate(over="ignore"):
        for column in chain((one.astype(np.uint64) for one in columns), numbers):
            result = (result ^ column) * _STIR
            result ^= result >> np.uint64(29)
    return result
