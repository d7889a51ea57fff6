"""What part each call plays: clean, suspect, carrier, amplifier, or unknown.

One pass in the order of execution keeps, for each tensor of the run under debug, the error that it
may hold: what is seen in its statistics, or more when it was made from something worse, as few
statistics betray what a normalisation or a view has hidden. A call is a suspect when its output is
far off although everything it was made from agrees.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.distance import WORST
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding, Place, Roles
from msprobe_builder.verdict.flow import Flow
from msprobe_builder.verdict.operators import CASTS, Family, operator_of

Float = NDArray[np.float64]
Int = NDArray[np.int64]


_NONE = (0.0, -1)
_INPUTS = (int(Section.INPUT), int(Section.PARAMETERS))


class Pass:
    """The state of the pass; lists instead of arrays, as single elements are read and written.

    An error goes with the number of the finding it stems from, -1 when it is mere noise.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        tree, table = flow.npu.tree, flow.npu.table
        size, rows = len(tree), len(table)
        self.size = size
        self.start: list[int] = np.searchsorted(table.node, np.arange(size + 1)).tolist()
        self.error: list[float] = flow.error.tolist()
        self.floor: list[float] = flow.floor.tolist()
        self.scale: list[float] = flow.scale.tolist()
        self.section: list[int] = table.section.tolist()
        self.counts: list[bool] = flow.counts.tolist()
        self.informative: list[bool] = flow.informative.tolist()
        self.node_of: list[int] = table.node.tolist()
        self.parent: list[int] = tree.parent.tolist()
        self.producer: list[int] = flow.producer.tolist()
        self.bench_of: list[int] = flow.bench_of.tolist()
        self.bench_producer: list[int] = flow.bench_producer.tolist()
        self.bench_node: list[int] = flow.bench.table.node.tolist()
        self.bench_partner: list[int] = flow.bench_partner.tolist()
        self.npu_of: list[int] = flow.npu_of.tolist()
        self.partner: list[int] = flow.partner.tolist()
        self.family: list[int] = flow.family.tolist()
        self.carries: list[bool] = flow.carries.tolist()
        self.twin: list[int] = flow.twin.tolist()
        self.reach: list[float] = flow.reach.tolist()
        self.gain: list[float] = flow.gain.tolist()
        self.numel: list[float] = np.fmax(table.numel, 1.0).tolist()
        self.is_line: list[bool] = flow.is_line.tolist()
        self.backward = [name.direction is Direction.BACKWARD for name in tree.parsed]
        self.is_module = [name.kind is not Kind.API for name in tree.parsed]
        self.latent = [0.0] * rows
        self.root = [-1] * rows
        self.taint: dict[int, Place] = {}  # by row: something differs that statistics may hide
        self.given = [_NONE] * size
        self.amount = [0.0] * size  # the error of an input times the size of its elements
        self.node_taint: dict[int, Place] = {}
        self.put_out = [_NONE] * size
        self.inside = [_NONE] * size  # worst of what the calls inside have put out so far
        self.expected = [0.0] * size
        self.shown = [float("nan")] * size
        self.floors = [float("nan")] * size
        self.role = [int(CallRole.UNKNOWN)] * size
        self.findings: list[Finding] = []
        self.felt: list[int] = []
        self.choices: list[int] = []
        self.discrete: list[bool] = flow.discrete.tolist()
        self.outside: list[int] = []
        self.known: dict[tuple[int, int], int] = {}  # side and node of findings
        self.bench_way: dict[int, tuple[float, int]] = {}
        self.bench_start = np.searchsorted(
            flow.bench.table.node, np.arange(len(flow.bench.tree) + 1)
        ).tolist()

    def run(self) -> Roles:
        end = self.flow.npu.tree.subtree_end.tolist()
        open_nodes: list[int] = []
        for node in range(self.size):
            while open_nodes and end[open_nodes[-1]] < node:
                self._finish(open_nodes.pop())
            self._begin(node)
            open_nodes.append(node)
        while open_nodes:
            self._finish(open_nodes.pop())
        return Roles(
            np.array(self.role, dtype=np.int64),
            np.array([root for _, root in self.put_out], dtype=np.int64),
            np.array([error for error, _ in self.given]),
            np.array(self.shown),
            np.array(self.expected),
            np.array(self.floors),
            self.findings,
            np.array(self.felt, dtype=np.int64),
            np.array(self.outside, dtype=np.int64),
            self.choices,
        )

    # What a call is given.

    def _begin(self, node: int) -> None:
        worst, amount = _NONE, 0.0
        taint = None
        for row in range(self.start[node], self.start[node + 1]):
            if self.section[row] not in _INPUTS or not self.counts[row]:
                continue
            self._receive(node, row)
            latent = self.latent[row]
            if latent > worst[0]:
                worst = latent, self.root[row]
            amount = max(amount, latent * self.scale[row])
            taint = taint or self.taint.get(row)
        if self.backward[node]:
            worst = max(worst, self._of_twin(node))
        if taint is not None:
            self.node_taint[node] = taint
        self.given[node], self.amount[node] = worst, amount

    def _of_twin(self, node: int) -> tuple[float, int]:
        """A gradient is made of what the forward call was given and put out, too."""
        twin = self.twin[node]
        twin_worst: tuple[float, int] = _NONE
        return twin_worst if twin < 0 else max(self.given[twin], self.put_out[twin])

    def _receive(self, node: int, row: int) -> None:
        """What a row holds: seen in itself, or inherited from where it came from."""
        seen, floor = self.error[row], self.floor[row]
        producer = self.producer[row]
        if producer >= 0:
            inherited = self.latent[producer], self.root[producer]
            self._pass_taint_on(row, producer)
        elif self.backward[node]:
            inherited = self._of_consumers(node)
        else:
            inherited = _NONE
        if seen == seen and seen > SUSPICIOUS * max(inherited[0], floor):
            other = self._on_another_way(node, row)
            if seen <= SUSPICIOUS * max(other[0], floor):
                inherited = other
            elif self._is_cast_back(node):
                seen = inherited[0]
            else:
                expected = max(inherited[0], other[0], floor)
                self.latent[row] = seen
                self.root[row] = self._blame(node, row, expected, max(inherited, other)[1])
                return
        root = inherited[1]
        if root >= 0 and seen == seen and seen > SUSPICIOUS * floor:
            at = self.findings[root].at
            if node not in (at, self.twin[at]):
                self.felt[root] += 1
                self.outside[root] += self.parent[node] != self.parent[at]
        self.latent[row] = seen if seen > inherited[0] else inherited[0]
        self.root[row] = root

    def _pass_taint_on(self, row: int, producer: int) -> None:
        taint = self.taint.get(producer)
        own = self.node_of[producer]
        if taint is None and self.partner[own] < 0:
            taint = Place(0, own, Cause.EXTRA)
        if taint is None:
            other = self.bench_producer[self.bench_of[row]] if self.bench_of[row] >= 0 else -1
            if other >= 0 and self.bench_partner[self.bench_node[other]] < 0:
                taint = Place(1, self.bench_node[other], Cause.MISSING)
        if taint is not None:
            self.taint[row] = taint

    def _of_consumers(self, node: int) -> tuple[float, int]:
        """A gradient is the sum of what the calls that used the tensor give back."""
        worst = _NONE
        for consumer in self.flow.consumers.get(self.twin[node], ()):
            back = self.twin[consumer]
            if back >= 0:
                worst = max(worst, self.put_out[back])
        return worst

    def _is_cast_back(self, node: int) -> bool:
        """Whether it is the gradient of a cast: of none at all on the side that needs no cast."""
        return self.backward[node] and (
            operator_of(self.flow.npu.tree.parsed[node].stem) in CASTS and not self.is_module[node]
        )

    def _on_another_way(self, node: int, row: int) -> tuple[float, int]:
        """An error that the tensor may have come by elsewhere."""
        worst = self._of_bench(self.bench_of[row])
        parent = self.parent[node]
        if self.section[row] == Section.PARAMETERS_GRAD:
            worst = max(worst, self._of_gradients(parent))
        elif self.section[row] == Section.OUTPUT:
            worst = max(worst, self.inside[node], self.given[node])
        elif self.producer[row] < 0 and self.section[row] == Section.INPUT:
            # It came from calls that were not recorded, from what the module had at hand.
            worst = max(worst, self.inside[parent], self.given[parent])
        return worst

    def _of_gradients(self, backward: int) -> tuple[float, int]:
        """Parameter gradients are made of what their module was given, forward and back."""
        twin = self.twin[backward]
        worst = max(self.given[backward], self.inside[backward])
        return worst if twin < 0 else max(worst, self.given[twin], self.inside[twin])

    def _of_bench(self, row: int) -> tuple[float, int]:
        """The same by way of the reference: back through calls that this run lacks."""
        producer = self.bench_producer[row] if row >= 0 else -1
        if producer < 0:
            return _NONE
        paired = self.npu_of[producer]
        if paired >= 0:
            return self.latent[paired], self.root[paired]
        node = self.bench_node[producer]
        known = self.bench_way.get(node)
        if known is not None:
            return known
        self.bench_way[node] = found = _NONE  # should it go round
        sections = self.flow.bench.table.section
        for one in range(self.bench_start[node], self.bench_start[node + 1]):
            if sections[one] == Section.INPUT:
                found = max(found, self._of_bench(one))
        self.bench_way[node] = found
        return found

    def _blame(self, node: int, row: int, expected: float, root: int) -> int:
        """A tensor is off although nothing that it came from is: who made it so?"""
        producer, other = self.producer[row], self.bench_of[row]
        theirs = self.bench_producer[other] if other >= 0 else -1
        bench_node = self.bench_node[theirs] if theirs >= 0 else -1
        own = self.node_of[producer] if producer >= 0 else -1
        taint = self.taint.get(row)
        place = Place(0, node, Cause.WIRING)
        if taint is not None:
            place = taint
        elif own >= 0 and self.partner[own] < 0:
            place = Place(0, own, Cause.EXTRA)
        elif bench_node >= 0 and self.bench_partner[bench_node] < 0:
            place = Place(1, bench_node, Cause.MISSING)
        elif self.section[row] in (Section.OUTPUT, Section.PARAMETERS_GRAD):
            place = Place(0, node, Cause.OUTPUT)
        elif own < 0 and bench_node < 0:
            parent = self.parent[node]
            if self.section[row] == Section.PARAMETERS or parent <= 0 or self._is_first(node):
                place = Place(0, node, Cause.EXTERNAL)
            else:
                place = Place(0, parent, Cause.BETWEEN)
        return self._find(place, node, row, expected, root)

    def _is_first(self, node: int) -> bool:
        """Whether nothing has been called inside the module before."""
        return self.parent[node] == node - 1

    def _find(self, place: Place, at: int, row: int, expected: float, root: int) -> int:
        key = place.side, place.node
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.findings)
            self.felt.append(0)
            self.outside.append(0)
            self.findings.append(
                Finding(
                    place.side, place.node, row, at, self.error[row], expected, place.cause, root
                )
            )
        return number

    # What it puts out.

    def _finish(self, node: int) -> None:
        has_inside = self.flow.npu.tree.subtree_end[node] > node
        given = max(self.given[node], self.inside[node]) if has_inside else self.given[node]
        matched = self.partner[node] >= 0
        worst, worst_ratio, suspect = _NONE, -1.0, False
        taint = self._own_taint(node)
        for row in range(self.start[node], self.start[node + 1]):
            if self.section[row] in _INPUTS or not self.counts[row]:
                continue
            seen = self.error[row]
            if has_inside or self.section[row] == Section.PARAMETERS_GRAD:
                before = len(self.findings)
                self._receive(node, row)
                suspect |= len(self.findings) > before
                expected = max(given[0], self.floor[row])
            else:
                expected = max(self._expected(node, row, given), self.floor[row])
                self.latent[row] = self._handed_on(node, given[0], expected)
                self.root[row] = given[1]
                if self.discrete[row] and seen == seen and seen > 0 and given[0] > 0:
                    # One step aside is another choice, and all behind it is made of other numbers.
                    self.choices.append(node)
                    self.latent[row] = max(1.0, seen)
                elif seen == seen and seen > SUSPICIOUS * expected and matched:
                    place = taint or Place(0, node, Cause.OUTPUT)
                    self.latent[row] = seen
                    self.root[row] = self._find(place, node, row, expected, given[1])
                    suspect = True
                elif seen == seen:
                    self.latent[row] = max(seen, self.latent[row])
                if taint is not None and self._hides(node, row, taint):
                    self.taint[row] = taint
            if seen == seen and seen / expected > worst_ratio:
                worst_ratio = seen / expected
                self.shown[node], self.expected[node] = seen, expected
                self.floors[node] = self.floor[row]
            worst = max(worst, (self.latent[row], self.root[row]))
        self.put_out[node] = worst
        parent = self.parent[node]
        if parent >= 0:
            self.inside[parent] = max(self.inside[parent], worst)
        self.role[node] = int(self._role(node, matched, suspect, given, worst))

    def _own_taint(self, node: int) -> Place | None:
        if node in self.flow.arguments:
            return Place(0, node, Cause.ARGUMENT)
        return self.node_taint.get(node)

    def _hides(self, node: int, row: int, taint: Place) -> bool:
        """Whether the output may differ although its statistics agree.

        What mixes elements shows it when they differ or stand elsewhere; what hands them on, or
        is hardly described by its statistics, does not.
        """
        return (
            taint.node == node or self.family[node] != Family.PRODUCT or not self.informative[row]
        )

    def _handed_on(self, node: int, given: float, expected: float) -> float:
        """The error an output may hold unseen."""
        return min(given, expected) if self.family[node] == Family.SUM else given

    def _expected(self, node: int, row: int, given: tuple[float, int]) -> float:
        """What the errors of the inputs may come to here."""
        error = given[0]
        family = self.family[node]
        if family == Family.UNINITIALISED or self._is_cast_back(node):
            return WORST
        if family == Family.RANDOM and node not in self.flow.arguments:
            return WORST
        if error == 0.0:
            return self.floor[row] * self.gain[node]
        if family == Family.SUM and self.scale[row] > 0 and self.amount[node] > 0:
            error = self.amount[node] / self.scale[row]
        elif family == Family.CURVE:
            error *= self.reach[node]
        elif self.backward[node]:
            error *= self._cancelling(node, row)
        return min(max(error, self.floor[row]) * self.gain[node], WORST)

    def _cancelling(self, node: int, row: int) -> float:
        """How much a gradient that is a sum over all elements may have cancelled.

        That of a bias in front of a normalisation does so to the last digit.
        """
        size = self.scale[row]
        first = self.start[node]
        if not self.is_line[row] or size <= 0 or self.scale[first] <= 0:
            return 1.0
        terms = max(1.0, self.numel[first] / self.numel[row])
        return max(1.0, math.sqrt(terms) * self.scale[first] / size)

    def _has_chosen(self, node: int) -> bool:
        return bool(self.choices) and self.choices[-1] == node

    def _role(
        self,
        node: int,
        matched: bool,
        suspect: bool,
        given: tuple[float, int],
        put_out: tuple[float, int],
    ) -> CallRole:
        if not matched or self.shown[node] != self.shown[node] or self._has_chosen(node):
            return CallRole.UNKNOWN
        if suspect:
            return CallRole.SUSPECT if given[1] < 0 else CallRole.AMPLIFIER
        return CallRole.CLEAN if given[1] < 0 and put_out[1] < 0 else CallRole.CARRIER
