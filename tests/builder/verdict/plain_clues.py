"""Clues of outputs and of what calls are given, taken one tensor at a time.

The rules are those of docs/design/verdict.md, "Noise" and "Clues", for runs of one rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import inputs_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.observations import surprise

SINGLE = 2.0**-23


class Told(NamedTuple):
    """A clue, by what is compared."""

    side: int
    node: int
    cause: Cause
    row: int
    score: float
    error: float
    expected: float


class PlainClues:
    """Evidence, read row by row."""

    def __init__(self, evidence: Evidence) -> None:
        self.ev = evidence
        self.runs, self.seen, self.does = evidence.runs, evidence.seen, evidence.does
        self.table, self.calls = self.runs.npu.table, self.runs.npu.calls
        self.tensors = np.flatnonzero(self.table.is_tensor).tolist()
        self.size = self.seen.size.tolist()
        self.latent = evidence.expected.latent.tolist()
        self.told = evidence.expected.told.tolist()
        self.node = self.table.node.tolist()
        self._spreads: dict[tuple[int, bool], float] = {}
        self.unit = (self.runs.coarse if self.runs.is_mixed else self.runs.fine).tolist()

    # What calls of a kind are off by as a rule

    def spread(self, row: int) -> float:
        own = self._group(row)
        if own not in self._spreads:
            self._spreads[own] = self._spread_of(own)
        node = self.node[row]
        steep = int(self.does.steep[node]) > 1
        spread = max(1.0, self._spreads[own]) if steep else self._spreads[own]
        is_by_rows = self.does.normalises[node] and not self.runs.backward[node]
        return 2 * spread if is_by_rows and not math.isnan(self.seen.exact[row]) else spread

    def _spread_of(self, own: tuple[int, bool]) -> float:
        found = [
            math.log(self.size[one] / self.told[one])
            for one in self.tensors
            if self.told[one] > 0
            and self.size[one] > 0
            and not self.runs.discrete[one]
            and self._group(one) == own
        ]
        if len(found) < 8:
            return 1.0
        most = math.log(3.0 if self.runs.is_mixed else 4.0)
        return math.exp(min(max(float(np.median(found)), math.log(0.5)), most))

    def _group(self, row: int) -> tuple[int, bool]:
        return int(self.does.kind[self.node[row]]), self.is_back(row)

    def is_back(self, row: int) -> bool:
        return bool(self.runs.backward[self.node[row]])

    def spread_of_given(self, back: bool) -> float:
        found = [
            math.log(self.size[one] / self.told[one])
            for one in self.tensors
            if self.told[one] > 0
            and self.size[one] > 0
            and not self.runs.discrete[one]
            and self.is_back(one) == back
        ]
        if len(found) <= 8:
            return 1.0
        most = math.log(3.0 if self.runs.is_mixed else 4.0)
        return math.exp(min(max(float(np.median(found)), 0.0), most))

    # Outputs

    def of_outputs(self) -> Iterator[Told]:
        judged = [
            row
            for row in self.tensors
            if not math.isnan(self.told[row])
            and self.runs.other[row] >= 0
            and not math.isnan(self.size[row])
            and not self.does.free[self.node[row]]
            and not self.ev.passed_over[self.node[row]]
        ]
        scores = self._together(judged, [self._score(row) for row in judged])
        chosen = [one for one in self.tensors if self.runs.discrete[one] and self.latent[one] > 0.1]
        first = self.node[chosen[0]] if chosen else len(self.runs.npu.tree)
        for row, together in zip(judged, scores, strict=True):
            node, score = self.node[row], together
            expected = self.told[row] * self.spread(row) * self._of_part(row)
            if self._is_given_unknown(node):
                score = min(score, 25.0)
            if self.runs.discrete[row]:
                is_certain = bool(self.ev.expected.is_whole[row]) and node <= first
                chose = 30.0 if is_certain else 5.0
                score = chose if self.seen.differs[row] and self._agrees(row) else 0.0
            elif self.does.breaks[node] and self._is_known(row) and self._steps_at_once(row):
                score = 30.0
            is_named = node in self.ev.arguments
            if self._is_cast_alone(row):
                yield Told(0, node, Cause.OUTPUT, row, 20.0, self.size[row], expected)
                continue
            if not (score > 1 or is_named):
                continue
            cause = Cause.OUTPUT
            if is_named and (score > 1 or self._has_same_shapes(node)):
                tells = bool(self.does.counts[node]) and self._has_same_shapes(node)
                weighs = [
                    not one.is_slight and (tells or not one.is_count)
                    for one in self.ev.arguments[node]
                ]
                cause, score = Cause.ARGUMENT, max(2 * score, 9.0 if any(weighs) else 0.0)
            shown = 0.0 if self.runs.discrete[row] else expected
            yield Told(0, node, cause, row, score, self.size[row], shown)
        for node, several in self.ev.arguments.items():
            weighty = [one for one in several if not one.is_slight]
            tells = bool(self.does.counts[node]) and self._has_same_shapes(node)
            if self.does.free[node] and any(not one.is_count for one in weighty):
                tells = True
            if tells and weighty and node not in {self.node[row] for row in judged}:
                yield Told(0, node, Cause.ARGUMENT, -1, 9.0, 0.0, 0.0)

    def _is_known(self, row: int) -> bool:
        return bool(self.ev.expected.is_whole[row]) and not self.does.received[self.node[row]]

    def _score(self, row: int) -> float:
        node, told = self.node[row], self.told[row] * self.spread(row) * self._of_part(row)
        if self.does.turns[node]:
            moved = float(np.nan_to_num(self.seen.moved[3, row]))
            score = moved / (min(told, 1e-3) + self.seen.resolution[row])
        else:
            carried = self._carried(node)
            if self.runs.backward[node] and self.calls.twin[node] >= 0:
                carried = max(carried, self._carried(int(self.calls.twin[node])))
            score = surprise(self.seen, np.array([row]), np.array([told]), np.array([carried]))[0]
        return float(score if self._is_known(row) else 0.4 * score)

    def _of_part(self, row: int) -> float:
        """How many times further off than the whole a part may be."""
        node = self.node[row]
        kind = operator_of(self.calls.stems[int(self.calls.stem[node])]).kind
        is_read = math.isnan(self.seen.exact[row])
        if kind is not Kind.SLICE or self.is_back(row) or not is_read:
            return 1.0
        given = [self.seen.elements[one] for one in inputs_of(self.table, node).tolist()]
        return max(1.0, math.sqrt(max(given, default=0.0) / self.seen.elements[row]))

    def _carried(self, node: int) -> float:
        found = [0.0]
        for row in inputs_of(self.table, node).tolist():
            if self.runs.other[row] >= 0 and not self.runs.discrete[row]:
                moved = [one for one in self.seen.moved[2:, row] if not math.isnan(one)]
                found.append(self.seen.resolution[row] + min(max(moved, default=0.0), 1.0))
        return float(max(found))

    def _together(self, rows: list[int], scores: list[float]) -> list[float]:
        """Scores of calls that repeat in other passes of their module, where these are alike."""
        turns: dict[tuple[int, str], int] = {}
        groups: dict[tuple[int, str, int], list[int]] = {}
        for place, row in enumerate(rows):
            node = self.node[row]
            around = int(self.runs.npu.tree.parent[node])
            if self.calls.is_api[node] and around > 0:
                what = f"{self._operation(node)}"
                turn = turns.get((around, what), 0)
                turns[around, what] = turn + 1
                key = int(self.calls.stem[around]), what, turn
                groups.setdefault(key, []).append(place)
        result = list(scores)
        for places in groups.values():
            own = [scores[one] for one in places]
            if len(own) > 1 and 2 * min(own) >= max(own):
                for one in places:
                    result[one] = math.sqrt(sum(score**2 for score in own))
        return result

    def _operation(self, node: int) -> tuple[str, int]:
        stem = self.calls.stems[int(self.calls.stem[node])]
        return operator_of(stem).name, int(self.calls.direction[node])

    def _is_given_unknown(self, node: int) -> bool:
        bench = self.runs.bench.table
        return any(
            self.runs.other[row] >= 0
            and math.isnan(self.size[row])
            and not self.runs.discrete[row]
            and (self.table.missing[row] or bench.missing[self.runs.other[row]])
            for row in inputs_of(self.table, node).tolist()
        )

    def _given(self, node: int) -> list[int]:
        return [
            row
            for row in self.tensors
            if self.node[row] == node
            and self.table.section[row] in (Section.INPUT, Section.PARAMETERS)
        ]

    def _agrees(self, row: int) -> bool:
        given = [one for one in self._given(self.node[row]) if self.latent[one] > 0]
        worst = max((self.latent[one] for one in given), default=0.0)
        if worst == 0:
            return True
        highest, lowest = self.table.statistics[:2]
        one_number = any(highest[one] - lowest[one] <= 1e-5 * self.seen.peak[one] for one in given)
        few = worst * self.seen.elements[row] <= 0.01
        return bool(few and self.size[row] >= 0.3 and not one_number)

    def _steps_at_once(self, row: int) -> bool:
        for one in inputs_of(self.table, self.node[row]).tolist():
            if self.seen.elements[one] < 16 or not (self.seen.moved[:, one] == 0).all():
                return False
        other = int(self.runs.other[row])
        own, there = self.table.statistics[:3, row], self.runs.bench.table.statistics[:3, other]
        apart = [abs(one) for one in (own - there).tolist()]
        furthest = max((one for one in apart[:2] if not math.isnan(one)), default=math.nan)
        return furthest > 0 and apart[2] / furthest >= 0.5

    def _is_cast_alone(self, row: int) -> bool:
        coarse, fine = self.runs.coarse[row], self.runs.fine[row]
        is_other = coarse != fine and coarse > SINGLE and self.runs.other[row] >= 0
        return bool(is_other and not self.runs.discrete[row] and not self.runs.is_mixed)

    def _has_same_shapes(self, node: int) -> bool:
        partner = int(self.runs.partner[node])
        here, there = (
            [int(part.table.shape_id[row]) for row in inputs_of(part.table, one).tolist()]
            for part, one in ((self.runs.npu, node), (self.runs.bench, partner))
        )
        return here == there
