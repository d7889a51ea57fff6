"""Clues of what calls are given, and parameters get, taken one tensor at a time.

The rules are those of docs/design/verdict.md, "Clues", for runs of one rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.observations import surprise
from tests.builder.verdict.plain_clues import PlainClues, Told

_STILL = {Kind.SHAPE, Kind.TRANSPOSE}


class PlainGiven(PlainClues):
    """The same of what calls are given."""

    def of_given(self) -> Iterator[Told]:
        told = [one for row in self.tensors for one in self._edge(row)]
        weights = [
            score
            for row, score, *_, made in told
            if self._is_weight(row) and made < 0 and not self.runs.discrete[row]
        ]
        compared = [
            row
            for row in self.tensors
            if self.table.section[row] == Section.PARAMETERS
            and self.runs.maker[row] < 0
            and self.size[row] >= 0
            and not self.runs.discrete[row]
        ]
        many = sum(one >= 30 for one in weights)
        all_over = many >= max(2, len(compared) / 2)
        for row, score, expected, made in told:
            if score > 1:
                yield self._named(row, score, expected, made, all_over)

    def _is_weight(self, row: int) -> bool:
        return bool(self.table.section[row] == Section.PARAMETERS)

    def _edge(self, row: int) -> Iterator[tuple[int, float, float, int]]:
        node, section = self.node[row], self.table.section[row]
        is_handed = section == Section.OUTPUT and self.runs.open[node]
        is_handed = is_handed and self.runs.maker[row] >= 0
        if not (section in (Section.INPUT, Section.PARAMETERS) or is_handed):
            return
        if self.runs.other[row] < 0 or not self.size[row] > 0:
            return
        made, there = self.makers(row)
        is_back = bool(self.runs.backward[node])
        base = self.latent[made] if made >= 0 else math.nan
        if self._is_weight(row) and made < 0:
            base = 0.0
        if self._is_average(row):
            base = self._of_average(row)
        is_missing, is_extra = self._missing(there), self._extra(made)
        if is_missing and made < 0 and not is_back:
            base = 0.0
        if made < 0 and there < 0 and not is_back and self.takes_no_part(row):
            base = 0.0
        is_unknown = math.isnan(base)
        if is_unknown:
            base = self.level_before(row)
        floor = (0.3 if self._is_weight(row) else 0.6) * self.unit[row]
        expected = max(floor, 2 * base) * self.spread_of_given(is_back)
        score = float(surprise(self.seen, np.array([row]), np.array([expected]))[0])
        score *= 0.5 if is_unknown else 1.0
        if self.runs.discrete[row]:
            moved = [one for one in self.seen.moved[2:, row] if not math.isnan(one)]
            may_flip = base > 0 and (base * self.seen.elements[row] > 0.01 or self.size[row] < 0.3)
            may_flip = may_flip and max(moved, default=0.0) <= 10 * base
            counterpart = int(self.runs.other[made]) if made >= 0 else -1
            may_flip = may_flip and not (is_missing and counterpart >= 0 and counterpart != there)
            score = 30.0 if self.seen.differs[row] and not may_flip else 0.0
        elif self._is_weight(row) and made < 0:
            score = max(score, self._beyond_a_cast(row))
        is_told_beside = (made >= 0 or self.runs.is_mixed) and not is_missing and not is_extra
        if self.ev.passed_over[node] and is_told_beside:
            score = 0.0
        yield row, score, expected, made

    def _is_average(self, row: int) -> bool:
        """Whether a normalisation is given it to keep: untrained, second or third."""
        node = self.node[row]
        is_kept = self.table.section[row] == Section.INPUT and self.table.position[row] in (1, 2)
        is_kept = is_kept and bool(self.ev.does.normalises[node]) and not self.is_back(row)
        return is_kept and self.table.requires_grad[row] == 0

    def _of_average(self, row: int) -> float:
        """The error of what it is the mean or the variance of, over its own size."""
        [first] = inputs_of(self.table, self.node[row]).tolist()[:1]
        error, size = self.latent[first], float(self.seen.rms[first])
        of = size if self.table.position[row] == 1 else 2 * size**2
        own = float(self.seen.rms[row])
        told = error * of / own if own else math.inf * error * of if error * of else math.nan
        return 0.0 if math.isnan(told) else min(max(told, 0.0), 10.0)

    def takes_no_part(self, row: int) -> bool:
        """Whether it needs no gradient, where most of the forty outputs before do."""
        runs, table, node = self.runs, self.table, self.node[row]
        before = [
            one
            for one in self.tensors
            if table.section[one] == Section.OUTPUT
            and runs.npu.calls.is_api[self.node[one]]
            and not runs.discrete[one]
            and not runs.backward[self.node[one]]
            and self.node[one] < node
        ][-40:]
        trained = sum(table.requires_grad[one] == 1 for one in before)
        kept = self.ev.does.normalises[node] or runs.backward[: node + 1].any()
        return bool(table.requires_grad[row] == 0 and 2 * trained > len(before) and not kept)

    def _beyond_a_cast(self, row: int) -> float:
        """Twenty times the half units that the extremes of a weight moved by, of few."""
        if not self.runs.is_mixed:
            return 0.0
        weights = [
            one
            for one in self.tensors
            if self._is_weight(one)
            and self.runs.other[one] >= 0
            and self.size[one] > 0
            and self.makers(one)[0] < 0
            and not self.runs.discrete[one]
        ]
        times = {
            one: float(np.nan_to_num(np.fmax(*self.seen.moved[:2, one])))
            / (self.runs.coarse[one] / 2)
            for one in weights
        }
        few = sum(one <= 1.5 for one in times.values()) >= 0.8 * len(weights)
        is_habit = len(weights) >= 8 and few
        return float(20 * times[row]) if is_habit and times[row] > 1.5 else 0.0

    def makers(self, row: int) -> tuple[int, int]:
        """What made a row, and its partner."""
        runs, other = self.runs, int(self.runs.other[row])
        is_off = bool(self.seen.differs[row])
        return (
            _maker(runs.npu, runs.partner, runs.maker, runs.origin, row, is_off),
            _maker(
                runs.bench, runs.bench_partner, runs.bench_maker, runs.bench_origin, other, is_off
            ),
        )

    def _missing(self, there: int) -> bool:
        return there >= 0 and is_alone(
            self.runs.bench, self.runs.bench_partner, int(self.runs.bench.table.node[there])
        )

    def _extra(self, made: int) -> bool:
        alone = made >= 0 and is_alone(self.runs.npu, self.runs.partner, self.node[made])
        return alone and self.runs.other[made] < 0

    def _named(self, row: int, score: float, expected: float, made: int, all_over: bool) -> Told:
        runs, node = self.runs, self.node[row]
        there = self.makers(row)[1]

        def told(side: int, at: int, cause: Cause) -> Told:
            return Told(side, at, cause, row, score, self.size[row], expected)

        if self._is_weight(row) and made < 0:
            return told(0, node, Cause.WEIGHTS if all_over else Cause.WEIGHT)
        is_missing, is_extra = self._missing(there), self._extra(made)
        if is_missing and (not is_extra or self._hands_on(self.node[made])):
            at = int(runs.bench.table.node[there])
            return told(1, forward_alone(runs.bench, runs.bench_partner, at), Cause.MISSING)
        if is_extra:
            at = forward_alone(runs.npu, runs.partner, self.node[made])
            return told(0, at, Cause.EXTRA)
        counterpart = int(runs.other[made]) if made >= 0 else -1
        if counterpart >= 0 and there >= 0 and counterpart != there:
            copied = self._copied_by(made, there)
            if copied >= 0:
                return told(0, forward_alone(runs.npu, runs.partner, copied), Cause.EXTRA)
            return told(0, node, Cause.WIRING)
        if made < 0 and not runs.backward[node]:
            return told(0, node, Cause.EXTERNAL)
        return told(0, node, Cause.BETWEEN)

    def _hands_on(self, node: int) -> bool:
        """Whether a call, or the one it is the gradient of, puts out what it was given."""
        ahead = int(self.calls.twin[node]) if self.runs.backward[node] else node
        if ahead < 0 or not self.calls.is_forward_call[ahead]:
            return False
        operator = self.calls.operators[int(self.calls.stem[ahead])]
        kinds = {Kind.CAST, Kind.SHAPE, Kind.TRANSPOSE, Kind.MASK, Kind.DRAW, Kind.TURN}
        if operator.kind not in kinds and "itself" not in operator.keeps:
            return False
        rows = [row for row in self.tensors if self.node[row] == ahead]
        first = [
            [
                row
                for row in rows
                if self.table.section[row] == section and not self.table.position[row]
            ]
            for section in (Section.INPUT, Section.OUTPUT)
        ]
        if not (first[0] and first[1]):
            return False
        given, made = (self.table.statistics[:, one[-1]] for one in first)
        same = np.array_equal(given, made, equal_nan=True)
        types = self.table.dtype_id
        return bool(same and types[first[0][-1]] == types[first[1][-1]])

    def _copied_by(self, made: int, there: int) -> int:
        runs = self.runs
        here = int(runs.bench_row[there])
        if here < 0:
            return -1
        for row in inputs_of(self.table, self.node[here]).tolist():
            maker = int(runs.maker[row])
            if maker < 0:
                continue
            node = self.node[maker]
            is_alone_ahead = runs.partner[node] < 0 and self.calls.is_forward_call[node]
            if is_alone_ahead and made in runs.maker[inputs_of(self.table, node)].tolist():
                return int(node)
        return -1

    def level_before(self, row: int) -> float:
        """What the outputs before a row are off by at most, of those that are near."""
        runs, node, back = self.runs, self.node[row], self.is_back(row)
        ends = runs.npu.tree.subtree_end
        outputs = [
            one
            for one in self.tensors
            if not math.isnan(self.told[one]) and not math.isnan(self.latent[one])
        ]
        outputs.sort(key=lambda one: int(ends[self.node[one]]))
        before = [
            one for one in outputs if self.is_back(one) == back and ends[self.node[one]] < node
        ]
        near = [one for one in before[-40:] if node - self.node[one] < 200]
        worst = max((self.latent[one] for one in near), default=0.0)
        equal = sum(self.size[one] == 0 for one in near)
        if not runs.is_mixed and outputs and equal >= 0.9 * max(len(near), 8):
            worst = max((self.size[one] for one in near if self.size[one] > 0), default=0.0)
        norm = self.seen.norm[row]
        if back:
            shape = self.table.shape_id
            alike = [self.seen.norm[one] for one in near if shape[one] == shape[row]]
            longest = max((one for one in alike if not math.isnan(one)), default=0.0)
            if norm > 0:
                worst *= max(1.0, longest / norm / 50)
            earlier = [one for one in outputs if self.node[one] < node]
            if not near:
                worst = self.latent[earlier[-1]] if earlier else 0.0
        elif runs.backward[: node + 1].any() and norm > 0:
            shape, norms = self.table.shape_id, self.seen.norm
            parts = [
                self.latent[one]
                * (self.table.statistics[3, one] if math.isnan(norms[one]) else norms[one])
                for one in self.tensors
                if self.is_back(one)
                and self.table.section[one] == Section.OUTPUT
                and self.node[one] < node
                and shape[one] == shape[row]
            ]
            most = max((one for one in parts if not math.isnan(one)), default=0.0)
            worst = max(worst, most / norm)
        return min(worst, 10.0)

    def of_parameter_gradients(self) -> Iterator[Told]:
        """Gradients of parameters, beside the backward calls of their module."""
        runs, tree = self.runs, self.runs.npu.tree
        if tree.micro_steps != runs.bench.tree.micro_steps:
            return
        for row in self.tensors:
            is_one = self.table.section[row] == Section.PARAMETERS_GRAD
            if not is_one or runs.other[row] < 0 or not self.size[row] > 0:
                continue
            module = tree.names[self.node[row]].partition(".parameters_grad")[0]
            back = [
                one
                for one in self.tensors
                if self.is_back(one)
                and runs.partner[self.node[one]] >= 0
                and not math.isnan(self.latent[one])
                and self._module_of(self.node[one]) == module
            ]
            is_unknown = not back
            if is_unknown:
                base = self.level_before(row)
            else:
                base = max(self.latent[one] for one in back)
                norms = [self.seen.norm[one] for one in back]
                longest = max((one for one in norms if not math.isnan(one)), default=0.0)
                shape = runs.texts.values[self.table.shape_id[row]]
                own = np.fmax(self.seen.norm[row], self.table.statistics[3, row])
                shorter = longest / (50.0 if "," in shape else 1.0) / own
                if "," in shape:
                    shorter = max(shorter, self._unrelated(module, row) / own)
                base = min(10.0, base * max(1.0, float(shorter)))
            expected = max(0.6 * self.unit[row], 2 * base)
            score = float(surprise(self.seen, np.array([row]), np.array([expected]))[0])
            score *= 0.5 if is_unknown else 1.0
            if score > 1:
                node, cause, side = self.node[row], Cause.OUTPUT, 0
                made, there = int(runs.maker[row]), int(runs.bench_maker[runs.other[row]])
                if self._missing(there):
                    at = int(runs.bench.table.node[there])
                    node = forward_alone(runs.bench, runs.bench_partner, at)
                    side, cause = 1, Cause.MISSING
                elif made >= 0 and is_alone(runs.npu, runs.partner, self.node[made]):
                    node = forward_alone(runs.npu, runs.partner, self.node[made])
                    cause = Cause.EXTRA
                yield Told(side, node, cause, row, score, self.size[row], expected)

    def _unrelated(self, module: str, row: int) -> float:
        """The length of a product of g and x over k if these are unrelated, of the longest pass."""
        found = [0.0]
        for node in {self.node[one] for one in self.tensors if self.is_back(one)}:
            ahead = int(self.calls.twin[node])
            if not self.calls.is_module[node] or ahead < 0 or self._module_of(node) != module:
                continue
            rows = [
                one
                for at in (node, ahead)
                for one in self.tensors
                if self.node[one] == at
                and self.table.section[one] == Section.INPUT
                and not self.table.position[one]
                and self.seen.norm[one] > 0
                and not self.runs.discrete[one]
            ]
            if len(rows) == 2:
                g, x = rows
                n = [float(self.seen.elements[one]) for one in (g, x, row)]
                length = math.sqrt(math.sqrt(n[0] * n[1] / n[2]))
                found.append(float(self.seen.norm[g] * self.seen.norm[x]) / length)
        return max(found)

    def _module_of(self, node: int) -> str:
        above = int(self.runs.npu.tree.parent[node]) if self.calls.is_api[node] else node
        return self.calls.stems[int(self.calls.stem[above])]


def is_alone(part: Part, partner: np.ndarray, node: int) -> bool:
    """Whether a call or module has no counterpart."""
    return bool((part.calls.is_api[node] or part.calls.is_module[node]) and partner[node] < 0)


def forward_alone(part: Part, partner: np.ndarray, node: int) -> int:
    """The forward call of a gradient, where that has no counterpart either."""
    twin = int(part.calls.twin[node])
    is_back = part.calls.direction[node] == Direction.BACKWARD
    return twin if is_back and twin >= 0 and partner[twin] < 0 else node


def _maker(
    part: Part, partner: np.ndarray, maker: np.ndarray, origin: np.ndarray, row: int, is_off: bool
) -> int:
    node = part.table.node
    made = int(maker[row])
    if made < 0:
        return made
    if partner[node[made]] < 0 <= partner[node[origin[row]]]:
        made = int(origin[row])
    for _ in range(4 if is_off else 0):
        at = int(node[made])
        operator = part.calls.operators[int(part.calls.stem[at])]
        keeps = operator.kind in _STILL or "itself" in operator.keeps
        keeps = keeps and operator.kind is not Kind.CAST and bool(part.calls.is_api[at])
        given = inputs_of(part.table, at).tolist()
        if not keeps or partner[at] >= 0 or not given or maker[given[0]] < 0:
            break
        made = int(maker[given[0]])
    return made
