"""Calls of one tensor that were paired with each other's counterpart.

Slices of a tensor, or shifts of it, may look alike, so that the second of this run is paired with
the first of the reference. Both sides then make the same calls with the same arguments, and the
arguments of a pair differ nevertheless.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.differences.arguments import Argument

Int = NDArray[np.int64]


def traded_calls(
    npu: Part, bench: Part, partner: Int, arguments: Mapping[int, Sequence[Argument]]
) -> list[int]:
    """Npu calls whose arguments differ merely as their pairs were exchanged.

    A program that takes other slices makes its calls in the same order nevertheless, so that the
    second is paired with the second; what is paired out of turn was paired by its numbers.
    """
    asked = {npu.calls.stems[int(npu.calls.stem[node])] for node in arguments}
    own, other = (_by_tensor(part, asked) for part in (npu, bench))
    found = []
    for node in arguments:
        there = int(partner[node])
        mine, theirs = own[_key(npu, node)], other[_key(bench, there)]
        if node not in mine or there not in theirs:
            continue  # a call of another name
        is_out_of_turn = list(mine).index(node) != list(theirs).index(there)
        if is_out_of_turn and set(mine.values()) == set(theirs.values()):
            found.append(node)
    return found


_Key = tuple[int, str, bytes]


def _by_tensor(part: Part, stems: Collection[str]) -> dict[_Key, dict[int, bytes]]:
    """By micro-step, operator and tensor all calls that are given it, with their plain arguments.

    In the order of execution.
    """
    found: dict[_Key, dict[int, bytes]] = defaultdict(dict)
    named = part.calls.of_stems(lambda stem: stem in stems) == 1
    for node in np.flatnonzero(named & part.calls.is_forward_call).tolist():
        key = _key(part, node)
        if key[2]:
            found[key][node] = _plain(part, node)
    return found


def _key(part: Part, node: int) -> _Key:
    rows = inputs_of(part.table, node)
    step, stem = int(part.tree.micro_step[node]), part.calls.stems[int(part.calls.stem[node])]
    return step, stem, part.table.statistics[:, rows].tobytes()


def _plain(part: Part, node: int) -> bytes:
    """The arguments of a call that are no tensors, by their places; texts are those of both."""
    table = part.table
    rows = np.arange(*np.searchsorted(table.node, [node, node + 1]).tolist())
    rows = rows[~table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    return np.stack([table.name_id[rows], table.value_id[rows]]).tobytes()
