"""Calls of one tensor that were paired with each other's counterpart.

Slices of a tensor, or shifts of it, may look alike, so that the second of this run is paired with
the first of the reference. Both sides then make the same calls with the same arguments, and the
arguments of a pair differ nevertheless.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument

Int = NDArray[np.int64]


def traded_calls(
    npu: Part, bench: Part, partner: Int, arguments: Mapping[int, Sequence[Argument]]
) -> list[int]:
    """Npu calls whose arguments differ merely as their pairs were exchanged.

    A program that takes other slices makes its calls in the same order nevertheless, so that the
    second is paired with the second; what is paired out of turn was paired by its numbers.
    """
    takes = npu.calls.are(questions.any_of(questions.slices, questions.turns))
    nodes = [node for node in arguments if takes[node]]
    asked = {npu.calls.stems[int(npu.calls.stem[node])] for node in nodes}
    debug, reference = (_by_tensor(part, asked) for part in (npu, bench))
    same: dict[tuple[_Key, _Key], bool] = {}
    found = []
    for node in nodes:
        there = int(partner[node])
        key, other_key = _key(npu, node), _key(bench, there)
        taken, other_taken = debug[key], reference[other_key]
        if (
            node not in taken
            or there not in other_taken
            or taken[node].turn == other_taken[there].turn
        ):
            continue  # a call of another name, or paired in turn
        if (key, other_key) not in same:
            same[key, other_key] = _arguments(taken) == _arguments(other_taken)
        if same[key, other_key]:
            found.append(node)
    return found


@dataclass(frozen=True)
class _Taken:
    """A call that is given a tensor: its turn among all that are, and its plain arguments."""

    turn: int
    arguments: bytes


def _arguments(calls: Mapping[int, _Taken]) -> set[bytes]:
    return {one.arguments for one in calls.values()}


_Key = tuple[int, str, bytes]


def _by_tensor(part: Part, stems: Collection[str]) -> dict[_Key, dict[int, _Taken]]:
    """By micro-step, operator and tensor all calls that are given it, with their plain arguments.

    In the order of execution.
    """
    found: dict[_Key, dict[int, _Taken]] = defaultdict(dict)
    named = part.calls.of_stems(lambda stem: stem in stems) == 1
    for node in np.flatnonzero(named & part.calls.is_forward_call).tolist():
        key = _key(part, node)
        if key[2]:
            found[key][node] = _Taken(len(found[key]), _plain(part, node))
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
