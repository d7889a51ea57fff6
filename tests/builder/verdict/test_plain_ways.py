"""What follows from another choice, and where programs meet again: drawn programs, plain rules.

The rules are those of docs/design/verdict.md, followed from one call to the next.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from msprobe_builder.base.codes import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.model.choices import behind_choices, chosen_otherwise
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.conduct import REACH
from msprobe_builder.verdict.model.converging import Leaks, Ways
from tests.builder.verdict.drawn_evidence import evidence_drawn, sizes, unit_of

TRIED = [(seed, mixed) for seed in range(200, 224) for mixed in (False, True, None)]


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return evidence_drawn(*request.param, calls=24)


def test_what_follows_from_another_choice(evidence: Evidence) -> None:
    runs, table, seen, does = evidence.runs, evidence.runs.npu.table, evidence.seen, evidence.does
    calls = runs.npu.calls
    pointless = set(of_nothing(evidence))
    behind: set[int] = set()
    told: set[int] = set()
    tensors = np.flatnonzero(table.is_tensor).tolist()
    for row in tensors:
        node = int(table.node[row])
        jumps = (does.breaks[node] or does.turns[node]) and table.section[row] == Section.OUTPUT
        jumps = (jumps and not runs.discrete[row]) or row in pointless
        if (runs.discrete[row] and seen.differs[row]) or (jumps and seen.size[row] > 1e-3):
            behind.add(row)
    for row in tensors:
        node, section = int(table.node[row]), table.section[row]
        follows = row in behind or int(runs.origin[row]) in behind
        is_judged = calls.is_api[node] or (calls.is_module[node] and not runs.open[node])
        twin = int(calls.twin[node])
        if section != Section.INPUT and is_judged:
            follows |= node in told or (twin >= 0 and twin in told)
        if follows:
            behind.add(row)
            if section == Section.INPUT:
                told.add(node)
    behind |= {
        row
        for row in tensors
        if table.section[row] == Section.OUTPUT
        and runs.open[table.node[row]]
        and int(runs.origin[row]) in behind
    }
    right = behind - pointless
    found = behind_choices(runs, seen, does)
    assert set(np.flatnonzero(found).tolist()) == right
    assert chosen_otherwise(evidence, found) == first_choice(evidence, right)


def of_nothing(evidence: Evidence) -> list[int]:
    """What normalisations put out of a call that joined a half to next to nothing."""
    runs, table, seen, does = evidence.runs, evidence.runs.npu.table, evidence.seen, evidence.does
    calls = runs.npu.calls
    half = {int(table.node[row]) for row in sizes(evidence, Section.INPUT) if seen.size[row] >= 0.5}
    gathers = {
        node
        for node in half
        if calls.operators[int(calls.stem[node])].kind in (Kind.JOIN, Kind.PLACE, Kind.MASK)
        and calls.is_forward_call[node]
    }
    points = {
        int(table.node[row])
        for row in sizes(evidence, Section.INPUT)
        if runs.origin[row] >= 0
        and int(table.node[runs.origin[row]]) in gathers
        and seen.size[row] < 0.5
    }
    return [
        row
        for row in np.flatnonzero(runs.rows(Section.OUTPUT)).tolist()
        if int(table.node[row]) in points
        and does.normalises[table.node[row]]
        and does.kind[table.node[row]] != REACH
    ]


def first_choice(evidence: Evidence, behind: set[int]) -> int | None:
    runs, table, seen = evidence.runs, evidence.runs.npu.table, evidence.seen
    outputs = np.flatnonzero(runs.rows(Section.OUTPUT)).tolist()
    shows = [
        int(table.node[row])
        for row in outputs
        if row in behind and evidence.off[row] and not runs.discrete[row]
    ]

    def is_other(row: int) -> bool:
        return bool(runs.discrete[row] and seen.differs[row] and not runs.by_sum[row])

    given = {
        int(table.node[row])
        for row in np.flatnonzero(runs.rows(Section.INPUT)).tolist()
        if is_other(row) or evidence.off[row]
    }
    for row in outputs if shows else ():
        node = int(table.node[row])
        turned = evidence.off[row] and evidence.does.turns[node]
        chose = (is_other(row) or turned) and node not in given and not evidence.does.free[node]
        if chose and runs.npu.calls.is_forward_call[node]:
            return node if node <= min(shows) else None
    return None


def test_ways_end_where_all_that_is_computed_agrees(evidence: Evidence) -> None:
    ways, plain = Ways(evidence), PlainWays(evidence)
    for row in np.flatnonzero(evidence.runs.npu.table.is_tensor).tolist():
        assert ways.agree(row) is (plain.way(row) is not None), row


class PlainWays:
    """The calls that follow from a tensor, until three behind one another agree."""

    def __init__(self, evidence: Evidence) -> None:
        self.ev = evidence
        self.runs, self.table = evidence.runs, evidence.runs.npu.table
        self.calls = self.runs.npu.calls

    def level(self, row: int) -> float:
        node = int(self.table.node[row])
        unit = float(np.quantile(self.runs.coarse[self.runs.other >= 0], 0.95))
        if self.ev.seen.elements[row] == 1:
            unit = max(2.0**-23, unit / 32)
        return max(4 * unit, 4 * float(self.ev.noise[node]), float(self.ev.seen.resolution[row]))

    def agrees(self, row: int, *, behind: bool) -> bool:
        """As well as rounding leaves it; ``behind`` what agrees, as well as is expected of that."""
        seen, expected = self.ev.seen, float(self.ev.expected.told[row])
        level = max(self.level(row), 2.4 * expected if behind and expected > 0 else 0.0)
        return bool(seen.size[row] <= level and seen.norm[row] > 0 and not self.runs.discrete[row])

    def outputs(self, node: int) -> list[int]:
        rows = np.flatnonzero(self.runs.rows(Section.OUTPUT) & (self.table.node == node))
        return [int(row) for row in rows]

    def counts(self, node: int) -> bool:
        runs, calls = self.runs, self.calls
        if not (calls.is_api[node] or (calls.is_module[node] and not runs.open[node])):
            return False
        kind = calls.operators[int(calls.stem[node])].kind
        sizes = (Kind.MAKE, Kind.EMPTY, Kind.QUERY, Kind.DRAW)
        if kind in sizes and calls.is_api[node]:
            return False
        rows = self.outputs(node)
        is_same_choice = all(runs.discrete[row] and not self.ev.seen.differs[row] for row in rows)
        return not (rows and is_same_choice)

    def users(self, row: int) -> list[int]:
        given = np.flatnonzero(self.runs.rows(Section.INPUT) & (self.runs.origin == row))
        nodes = dict.fromkeys(self.table.node[given].tolist())
        return [node for node in nodes if self.counts(node)]

    def way(self, row: int) -> set[tuple[int, int]] | None:
        is_output = self.table.section[row] == Section.OUTPUT
        waiting = [(node, 0) for node in self.users(row)]
        if not is_output:
            waiting = [(int(self.table.node[row]), 0)]
        met: set[tuple[int, int]] = set()
        while waiting:
            node, agreeing = waiting.pop()
            if agreeing > 3 or (node, agreeing) in met:
                continue
            met.add((node, agreeing))
            if not self.outputs(node):
                if agreeing:
                    continue
                return None
            for one in self.outputs(node):
                users = self.users(one)
                is_known = not np.isnan(self.ev.seen.size[one])
                if self.agrees(one, behind=agreeing > 0):
                    following = agreeing + 1
                elif not users or (agreeing and is_known):
                    return None
                else:
                    following = 0 if is_known else agreeing
                waiting += [(user, following) for user in users]
        return met or None


def test_what_is_off_leaks_out_of_a_module(evidence: Evidence) -> None:
    runs, table = evidence.runs, evidence.runs.npu.table
    leaks = Leaks(evidence)
    used = [
        (int(table.node[runs.origin[row]]), int(table.node[row]))
        for row in sizes(evidence, Section.INPUT)
        if runs.origin[row] >= 0
        and not runs.backward[table.node[row]]
        and evidence.seen.size[row] > 4 * unit_of(evidence, row)
    ]
    off = {
        int(table.node[row])
        for row in sizes(evidence, Section.INPUT, Section.OUTPUT)
        if evidence.seen.size[row]
        > 4 * max(unit_of(evidence, row), evidence.noise[table.node[row]])
    }
    kept = {node for node in off if writes_what_stays(evidence, node)}
    for module in np.flatnonzero(runs.open).tolist():
        end = int(runs.npu.tree.subtree_end[module])
        for node in range(module, end + 1):
            right = any(node <= made <= end < by for made, by in used)
            right |= any(node <= one <= end for one in kept)
            assert leaks.leaves(node, module) is right


def writes_what_stays(evidence: Evidence, node: int) -> bool:
    """Whether a call writes to what nothing in the run has made."""
    calls = evidence.runs.npu.calls
    if not (calls.is_api[node] and calls.direction[node] == Direction.FORWARD):
        return False
    name = calls.stems[int(calls.stem[node])].rpartition(".")[2]
    if not (re.fullmatch(r"\w*[a-z]_", name) or re.fullmatch(r"__(setitem|i[a-z]+)__", name)):
        return False
    return any(was_there(evidence, row) for row in first_given(evidence, node))


def was_there(evidence: Evidence, row: int) -> bool:
    table, calls = evidence.runs.npu.table, evidence.runs.npu.calls
    made = int(evidence.runs.origin[row])
    if made < 0 or writes_what_stays(evidence, int(table.node[made])):
        return True
    maker = int(table.node[made])
    operator = calls.operators[int(calls.stem[maker])]
    if operator.kind not in (Kind.SHAPE, Kind.TRANSPOSE, Kind.CAST) or operator.name == "clone":
        return False
    given = first_given(evidence, maker)
    same = [(table.statistics[:, one] == table.statistics[:, made]).all() for one in given]
    return any(same) and was_there(evidence, given[0])


def first_given(evidence: Evidence, node: int) -> list[int]:
    table = evidence.runs.npu.table
    rows = np.flatnonzero((table.node == node) & table.is_tensor).tolist()
    return [
        row for row in rows if table.section[row] == Section.INPUT and table.position[row] == 0
    ][:1]
