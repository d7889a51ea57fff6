"""What part each call plays: clean, suspect, carrier, amplifier, or unknown.

One pass in the order of execution keeps, for each tensor of the run under debug, the error that it
may hold: what is seen in its statistics, or more when it was made from something worse, as few
statistics betray what a normalisation or a view has hidden. A call is a suspect when its output is
far off although everything it was made from agrees.
"""

from __future__ import annotations

import math

import numpy as np

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.distance import WORST
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.non_smooth import off_in_sum
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.findings import NONE, OF_ONE_SIDE, SUSPICIOUS, Cause, Place, Roles
from msprobe_builder.verdict.roles.accumulated import made_inside
from msprobe_builder.verdict.roles.columns import truths
from msprobe_builder.verdict.roles.inheritance import Inheritance
from msprobe_builder.verdict.roles.usual_calls import begin_at, finish_usual_at, usual_calls

# Without whole numbers to show it.
_may_choose = questions.any_of(questions.casts, questions.masks, questions.any_sign)


class Pass(Inheritance):
    """One pass over all calls."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        calls = flow.npu.calls
        self.may_choose = truths(calls.are(_may_choose) & (calls.direction == Direction.FORWARD))
        self.factorises = truths(calls.are(lambda one: "factors" in one.traits))
        self.made_inside = made_inside(flow, np.frombuffer(self.inside_gradient, dtype=bool))
        self.usual = usual_calls(self, self.made_inside)

    def run(self) -> Roles:
        end = self.end
        usual = self.usual
        begin, finish_usual = begin_at(self), finish_usual_at(self, self._finish, self._expected)
        open_nodes: list[int] = []
        for node in range(self.size):
            while open_nodes and end[open_nodes[-1]] < node:
                done = open_nodes.pop()
                (finish_usual if usual[done] else self._finish)(done)
            begin(node)
            if usual[node] and end[node] == node:
                finish_usual(node)
            else:
                open_nodes.append(node)
        while open_nodes:
            self._finish(open_nodes.pop())
        return Roles(
            np.frombuffer(self.role, dtype=np.int64),
            np.array(self.put_out.root, dtype=np.int64),
            np.array(self.given.error),
            np.frombuffer(self.shown),
            np.frombuffer(self.expected),
            np.frombuffer(self.floors),
            self.findings,
            np.array(self.felt, dtype=np.int64),
            np.array(self.outside, dtype=np.int64),
            self.choices,
        )

    # What it puts out.

    def _finish(self, node: int) -> None:
        first, last = self.out_start[node], self.out_start[node + 1]
        matched = not self.unmatched[node]
        given = self.given[node]
        has_inside = self.has_inside[node]
        if has_inside:
            given = max(given, self.inside[node])
        for row in self.made_inside.get(node, ()) if self.made_inside else ():
            # Of what comes later what is seen counts, and nobody is told twice.
            is_later = self.node_of[row] > node
            seen = self.error[row] if self.error[row] == self.error[row] else 0.0
            given = max(given, (seen, -1) if is_later else (self.latent[row], self.root[row]))
        worst, worst_ratio, suspect = NONE, -1.0, False
        taint = self.node_taint.get(node)
        if taint is not None and self._is_edge(node) and taint.cause in OF_ONE_SIDE:
            taint = None  # what only this side feeds a group with, such as a mask, is part of it
        is_of_ranks = taint is not None and taint.cause is Cause.RANK  # this is certain
        # Of a gradient that was not recorded, as behind what works in place, nobody knows anything.
        untold = matched and self.backward[node] and not self.is_module[node]
        untold = untold and self.in_start[node] == self.in_start[node + 1]
        untold = untold and not self.flow.left_out.inputs
        if node in self.arguments and not is_of_ranks:
            taint = Place(0, node, Cause.ARGUMENT)
        elif node in self.altered:
            taint = Place(0, node, Cause.OUTPUT)
            self.altered_inside.setdefault(self.parent[node], taint)
        if first == last and self.in_start[node] < self.in_start[node + 1]:
            target = self.inputs[self.in_start[node]]
            if taint is not None:
                self.taint[target] = taint  # it may have written to it
            worse = given[1] >= 0 or given[0] > self.floor[target]
            if worse and not self.is_module[node]:
                extent = self.shape[target], self.dtype[target]
                self.latent[target], self.root[target] = given  # what is read behind it
                self.written[extent] = max(given, self.written.get(extent, NONE))
        for row in self.outputs[first:last]:
            seen, floor = self.error[row], self.floor[row]
            if untold:
                expected = max(given[0], floor)
                self.latent[row] = seen if seen > given[0] else given[0]
                self.root[row] = given[1]
            elif self.passed_on[row]:
                before = len(self.findings)
                self.receive(node, row)
                if node in self.altered and taint is not None:
                    self.taint[row] = taint
                suspect |= len(self.findings) > before
                expected = max(given[0], floor)
            elif self.calm[row] and given[1] < 0 and taint is None:
                expected, error = floor, self._unseen(row, *given)
                self.latent[row] = seen if seen > error else error
            elif self.plain[row]:  # the rule
                expected = self._enlarged(node, row, given[0])
                if seen > SUSPICIOUS * expected:
                    suspect |= self._put_out(node, row, given, expected, taint)
                else:
                    self._hand_on(node, row, given, expected)
                    if taint is not None and (not self.mixes[row] or self._hides(node, taint)):
                        self.taint[row] = taint
            else:
                told = given
                if node in self.arguments and given[1] < 0:
                    told = self._seen(node, given[0]), -1
                expected = max(self._expected(node, row, told), floor)
                suspect |= self._put_out(node, row, given, expected, taint)
            if seen == seen and seen / expected > worst_ratio:
                worst_ratio = seen / expected
                self.shown[node], self.expected[node], self.floors[node] = seen, expected, floor
            if (latent := self.latent[row]) > worst[0]:
                worst = latent, self.root[row]
        self.put_out[node] = worst
        parent = self.parent[node]
        if parent >= 0 and worst > self.inside[parent]:
            self.inside[parent] = worst
        self.role[node] = int(self._role(node, matched, suspect, given, worst))

    def _seen(self, node: int, latent: float) -> float:
        """What is seen of errors in its inputs: an argument that differs is evidence enough."""
        rows = self.inputs[self.in_start[node] : self.in_start[node + 1]]
        seen = [self.error[row] for row in rows]
        return max(seen) if seen and all(one == one for one in seen) else latent

    def _is_edge(self, node: int) -> bool:
        """Whether a group puts out there what the other side's group does."""
        if not self.is_grouped[node]:
            return False
        rows = self.outputs[self.out_start[node] : self.out_start[node + 1]]
        return any(self.error[row] == self.error[row] for row in rows)

    def _put_out(
        self,
        node: int,
        row: int,
        given: tuple[float, int],
        expected: float,
        taint: Place | None,
    ) -> bool:
        """What an output holds; whether it is off although what it was made of is not."""
        seen, suspect = self.error[row], False
        told = node in self.arguments
        is_choice = self.discrete[row]
        by_chance = not is_choice and self.may_choose[node] and taint is None
        by_chance = (
            by_chance and seen > SUSPICIOUS * expected and self._by_chance(node, row, expected)
        )
        if by_chance or (is_choice and seen > 0 and given[0] > 0 and not told):
            # One step aside is another choice, and all behind it is made of other numbers.
            self.choices.append(node)
            self.latent[row], self.root[row] = max(1.0, seen), given[1]
        elif self._is_drawn(node, row, given):
            self.latent[row] = max(1.0, seen)
            self.root[row] = self._find(Place(0, node, Cause.RANDOM), node, row, expected, -1)
        elif (
            seen == seen
            and seen > SUSPICIOUS * expected
            and not self._follows_a_choice(node, given)
        ):
            place = taint or self._as_told(node)
            self.latent[row] = seen
            self.root[row] = self._find(place, node, row, expected, given[1])
            suspect = True
        else:
            self._hand_on(node, row, given, expected)
        if taint is not None and (not self.mixes[row] or self._hides(node, taint)):
            self.taint[row] = taint
        return suspect

    def _by_chance(self, node: int, row: int, expected: float) -> bool:
        """Whether it goes by truth values of numbers that were compared and differ, if by little.

        A number at the limit falls on either side; eigenvectors, beside values, have any sign, and
        so have the factors of a matrix. A sign changes no norm.
        """
        first, last = self.out_start[node], self.out_start[node + 1]
        if last > first + 1:
            of_values = min(self.numel[one] for one in self.outputs[first:last])
            is_turned = self.numel[row] > of_values or bool(self.factorises[node])
            return is_turned and self._keeps_its_norm(row, expected)
        rows = self.inputs[self.in_start[node] : self.in_start[node + 1]]
        return any(self.discrete[row] and self.latent[row] > 0.0 for row in rows)

    def _keeps_its_norm(self, row: int, expected: float) -> bool:
        debug = float(self.flow.npu.table.statistics[3, row])
        reference = float(self.flow.bench.table.statistics[3, self.bench_of[row]])
        return abs(debug - reference) <= SUSPICIOUS * expected * reference

    def _as_told(self, node: int) -> Place:
        """Who is to blame for what a call puts out: a gradient goes by its forward's arguments."""
        twin = self.twin[node]
        if self.backward[node] and twin in self.arguments and node not in self.arguments:
            return Place(0, twin, Cause.ARGUMENT)
        return Place(0, node, Cause.OUTPUT)

    def _hand_on(self, node: int, row: int, given: tuple[float, int], expected: float) -> None:
        """An output holds what is seen of an error in it, or what it may hold unseen."""
        seen, (error, root) = self.error[row], given
        if self.non_smooth[node]:
            error = max(error, self._moved(node))
        elif self.family[node] == Family.SUM and error > expected:
            error = expected
        error = self._unseen(row, error, root)
        self.latent[row] = seen if seen > error else error
        self.root[row] = root
        if self.off[row] and root >= 0 and self.findings[root].at == node:
            # It puts out what it was given, and perhaps nobody is behind it.
            self.felt[root] += not self.flow.consumers.of(node)

    def _unseen(self, row: int, error: float, root: int) -> float:
        """How much of what rounding did before a row may hold; behind a choice, anything."""
        is_more = root < 0 and error > self.hidden[row] and not self.choices
        return self.hidden[row] if is_more else error

    def _follows_a_choice(self, node: int, given: tuple[float, int]) -> bool:
        """Whether it is given integers that were chosen otherwise, so that it may make anything."""
        rows = self.inputs[self.in_start[node] : self.in_start[node + 1]]
        return given[1] < 0 and any(self.discrete[row] and self.latent[row] >= 1.0 for row in rows)

    def _is_drawn(self, node: int, row: int, given: tuple[float, int]) -> bool:
        """Whether other random numbers were drawn, with the same arguments."""
        return (
            self.family[node] == Family.RANDOM
            and self.error[row] > SUSPICIOUS * max(self.floor[row], given[0])
            and given[1] < 0
            and not self.unmatched[node]
            and not self.backward[node]
            and node not in self.arguments
        )

    def _hides(self, node: int, taint: Place) -> bool:
        """Whether a product's output may differ although its statistics agree.

        What mixes elements shows it when they differ or stand elsewhere; what hands them on, or
        is hardly described by its statistics, does not; nor a product of rows in another order.
        """
        return taint.node == node or bool(self.reorders[taint.side][taint.node])

    def _moved(self, node: int) -> float:
        """How far a gradient may move whose elements fall on the other side of a jump."""
        twin = self.twin[node]
        return math.sqrt(min(self.given[twin][0], 1.0)) if twin >= 0 else 0.0

    def _enlarged(self, node: int, row: int, error: float) -> float:
        """What the error of the worst input may come to, where nothing else decides."""
        floor = self.floor[row]
        if error >= WORST:
            return max(WORST, floor)  # how far beyond it is nobody measured
        if error == 0.0:
            # Even equal terms are added up in another order, and what cancels is all rounding.
            return max(floor * self.gain[node] * self.cancelling[row], floor)
        return max(min(max(error * self.stretch[row], floor) * self.gain[node], WORST), floor)

    def _expected(self, node: int, row: int, given: tuple[float, int]) -> float:
        """What the errors of the inputs may come to here."""
        error = given[0]
        family = self.family[node]
        if family == Family.UNINITIALISED or self._is_cast_back(node):
            return WORST
        if family == Family.RANDOM and node not in self.arguments:
            return WORST
        adds = family == Family.SUM and self.scale[row] > 0 and not self.backward[node]
        if error >= WORST and not (adds and not self.mixing[node]):
            return WORST  # how far beyond it is nobody measured
        if error == 0.0:
            # Even equal terms are added up in another order, and what cancels is all rounding.
            return self.floor[row] * self.gain[node] * self.cancelling[row]
        if self.over_few[node] or self.jumps[node]:
            return WORST
        if self.backward[node]:
            if family == Family.SUM and self._is_part(node, row) and self.scale[row] > 0:
                error = max(error, self._amount(node) / self.scale[row])
            error *= self.stretch[row]
        elif adds:
            amount = self._amount(node) / self.scale[row]
            if self.totals[node]:
                terms = self.numel[self.inputs[self.in_start[node]]] / self.numel[row]
                # A running sum may be off by as large a part as its terms.
                amount = amount * terms if terms > 1.0 else max(amount, error)
            if row in self.updates and node not in self.arguments:
                update = self.updates[row]
                amount = max(amount, min(error * update.stretch, update.limit))
            # What a normalisation is given it stretches, so that its errors stay what they are.
            error = max(error, amount * self.mixing[node]) if self.mixing[node] else amount or error
        elif self.rounds[node] and self.scale[row] > 0:
            error = max(error, 1.0 / self.scale[row])
        elif family in (Family.CURVE, Family.PLAIN):
            error *= self.stretch[row]
        elif family == Family.SELECTION and given[1] >= 0 and self.scale[row] > 0:
            # What is picked may hold all of the error, which noise does not.
            first, last = self.in_start[node], self.in_start[node + 1]
            most = max((self.numel[one] for one in self.inputs[first:last]), default=1.0)
            whole = self._amount(node) * math.sqrt(most / self.numel[row])
            error = max(error, whole / self.scale[row])
        expected = min(max(error, self.floor[row]) * self.gain[node], WORST)
        if self.non_smooth[node] and (moved := self._moved(node)) > 0.0:
            expected = max(expected, moved)
            limit = SUSPICIOUS * expected
            if self.in_norm[row] <= limit or (self.shares[node] and self._unshared(node) <= limit):
                expected = max(expected, self.error[row])
        return expected

    def _unshared(self, node: int) -> float:
        """How far the sum of all that a call gives back is off, as a fraction of its size."""
        put_out = self.outputs[self.out_start[node] : self.out_start[node + 1]]
        tables = self.flow.npu.table, self.flow.bench.table
        return off_in_sum(*tables, self.bench_of, put_out)

    def _is_part(self, node: int, row: int) -> bool:
        """Whether an output has fewer elements than what it is made of."""
        first, last = self.in_start[node], self.in_start[node + 1]
        return first < last and self.numel[row] < self.numel[self.inputs[first]]

    def _amount(self, node: int) -> float:
        """The largest error of its inputs times their size; none is off by more than both sizes."""
        rows = self.inputs[self.in_start[node] : self.in_start[node + 1]]
        return max(
            (
                self.latent[row] * self.scale[row]
                if self.latent[row] < WORST
                else self.scale[row] + self._own_size(row)
                for row in rows
            ),
            default=0.0,
        )

    def _own_size(self, row: int) -> float:
        """Root mean square on the side under debug; infinite when nothing tells it."""
        size = float(self.flow.npu.table.statistics[3, row]) / math.sqrt(self.numel[row])
        return size if math.isfinite(size) else math.inf

    def _role(
        self,
        node: int,
        matched: bool,
        suspect: bool,
        given: tuple[float, int],
        put_out: tuple[float, int],
    ) -> CallRole:
        has_chosen = bool(self.choices) and self.choices[-1] == node
        if not matched or self.shown[node] != self.shown[node] or has_chosen:
            return CallRole.UNKNOWN
        if suspect:
            return CallRole.SUSPECT if given[1] < 0 else CallRole.AMPLIFIER
        return CallRole.CLEAN if given[1] < 0 and put_out[1] < 0 else CallRole.CARRIER
