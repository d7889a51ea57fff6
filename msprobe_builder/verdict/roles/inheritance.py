"""What each tensor may hold of an error, seen in itself or inherited, and who is to blame for it.

For each tensor of the run under debug the error that it may hold is kept: what is seen in its
statistics, or more when it was made from something worse, as few statistics betray what a
normalisation or a view has hidden.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.distance import WORST
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.non_smooth import shares_gradients
from msprobe_builder.verdict.differences.operators import (
    Family,
)
from msprobe_builder.verdict.differences.stretch import cancelling, plain, stretch
from msprobe_builder.verdict.findings import NONE, SUSPICIOUS, Cause, Finding, Place
from msprobe_builder.verdict.roles.accumulated import Gradients, given_back_beside, uneven_gradients
from msprobe_builder.verdict.roles.columns import (
    at_least_one,
    elements,
    first_modules,
    first_rows,
    inside_gradients,
    made_by_both,
    of_other_types,
    rows_by_node,
    truths,
    with_calls_inside,
)
from msprobe_builder.verdict.roles.equal_tensors import is_sum, made_alone
from msprobe_builder.verdict.roles.gradients import gives_nothing_back
from msprobe_builder.verdict.roles.onesided import (
    calls_of_one_side,
    left_undone,
    modules_inside,
    movers_of,
)
from msprobe_builder.verdict.roles.worst import Worst

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_INPUTS = (int(Section.INPUT), int(Section.PARAMETERS))


class Inheritance:
    """The state of the pass, whose elements are read and written one at a time.

    What is read or written at every row is a list, which is fastest; other columns are not copied.
    An error goes with the number of the finding it stems from, -1 when it is mere noise.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        tree, table = flow.npu.tree, flow.npu.table
        size, rows = len(tree), len(table)
        self.size = size
        is_input = np.isin(table.section, _INPUTS)
        self.inputs, self.in_start = rows_by_node(table, size, flow.counts & is_input)
        self.outputs, self.out_start = rows_by_node(table, size, flow.counts & ~is_input)
        self.off = truths(flow.error > SUSPICIOUS * flow.floor)
        self.error: Sequence[float] = elements(flow.error)
        self.floor: Sequence[float] = elements(flow.floor)
        self.scale: Sequence[float] = elements(flow.scale)
        self.hidden: Sequence[float] = elements(flow.hidden)
        self.section: Sequence[int] = elements(table.section)
        self.tainted = calls_of_one_side(flow)
        self.inside_gradient = truths(inside_gradients(flow))
        self.requires_grad: Sequence[int] = elements(table.requires_grad)
        self.movers = movers_of(flow)
        self.informative = truths(flow.informative)
        self.node_of: Sequence[int] = elements(table.node)
        self.end: Sequence[int] = elements(tree.subtree_end)
        inside = with_calls_inside(flow)
        self.has_inside = truths(inside)
        # What a module puts out, or a parameter is given back, was made by the calls inside.
        self.passed_on = truths(
            inside[table.node] | (table.section == Section.PARAMETERS_GRAD) | left_undone(flow)
        )
        # An output that agrees needs no closer look, if what it was made of agrees.
        moves = flow.non_smooth | (flow.family == Family.SUM)
        self.calm = truths(
            ~(flow.error > SUSPICIOUS * flow.floor)
            & ~moves[table.node]
            & ~(flow.discrete & (flow.error > 0))
        )
        self.parent: Sequence[int] = elements(tree.parent)
        self.producer: Sequence[int] = elements(flow.producer)
        self.bench_of: Sequence[int] = elements(flow.bench_of)
        self.bench_producer: Sequence[int] = elements(flow.bench_producer)
        self.bench_node: Sequence[int] = elements(flow.bench.table.node)
        self.made_by_both = truths(made_by_both(flow))
        self.bench_unmatched = truths(flow.bench_unmatched)
        self.npu_of: Sequence[int] = elements(flow.npu_of)
        self.unmatched = truths(flow.unmatched)
        self.is_grouped = truths(flow.grouped.npu >= 0)
        self.family: Sequence[int] = elements(flow.family)
        self.carries = truths(flow.carries)
        self.twin: Sequence[int] = elements(flow.twin)
        self.mixing: Sequence[float] = elements(flow.mixing)
        self.non_smooth = truths(flow.non_smooth)
        self.shares = truths(flow.npu.calls.are(shares_gradients))
        self.totals = truths(flow.npu.calls.are(questions.one_of("sum", "cumsum")))
        self.over_few = truths(flow.over_few)
        self.in_norm: Sequence[float] = elements(flow.in_norm)
        self.gain: Sequence[float] = elements(flow.gain)
        self.numel: Sequence[float] = elements(at_least_one(table))
        self.is_line = truths(flow.is_line)
        self.kinds: Sequence[int] = elements(flow.npu.calls.kind)
        self.backward = truths(flow.npu.calls.direction == Direction.BACKWARD)
        self.rounds = truths(flow.npu.calls.are(questions.rounds))
        self.jumps = truths(flow.npu.calls.are(questions.jumps))
        self.is_cast = truths(flow.npu.calls.are(questions.casts) & of_other_types(flow))
        self.reorders = [part.calls.are(questions.reorders) for part in (flow.npu, flow.bench)]
        for node, several in flow.arguments.items():
            self.reorders[0][node] |= any(one.is_order for one in several)
        self.latent = array("d", bytes(8 * rows))
        self.root = array("i", [-1]) * rows
        self.arguments = {
            node
            for node, several in flow.arguments.items()
            if not all(one.is_slight for one in several)
        }
        first = first_rows(self.inputs, self.in_start)
        cancelled = cancelling(flow, first)
        self.cancelling: Sequence[float] = elements(cancelled)
        self.stretch: Sequence[float] = elements(stretch(flow, first, cancelled))
        told = [*self.arguments, *flow.altered]
        self.plain = truths(plain(flow, first, told))
        self.mixes = truths(flow.informative & (flow.family == Family.PRODUCT)[table.node])
        self.updates, self.altered = flow.updates, flow.altered
        self.called_inside = modules_inside(flow)
        self.altered_inside: dict[int, Place] = {}  # by module: a call in it that alters bits
        self.is_module = truths(flow.npu.calls.is_module)
        self.modules_alone = not flow.npu.calls.is_api.any()
        self.since = first_modules(flow)
        self.gradients = Gradients(flow)
        self.uneven = uneven_gradients(flow)
        self.beside = given_back_beside(flow)
        self.taint: dict[int, Place] = {}  # by row: something differs that statistics may hide
        self.node_taint: dict[int, Place] = {}
        # By shape and type what was written to parts of tensors: no call puts out what it made.
        self.shape: Sequence[int] = elements(table.shape_id)
        self.dtype: Sequence[int] = elements(table.dtype_id)
        self.written: dict[tuple[int, int], tuple[float, int]] = {}
        self.given, self.put_out = Worst(size), Worst(size)
        self.inside = Worst(size)  # worst of what the calls inside have put out so far
        self.expected = array("d", [0.0]) * size
        self.shown = array("d", [math.nan]) * size
        self.floors = array("d", [math.nan]) * size
        self.role = array("q", [int(CallRole.UNKNOWN)]) * size
        self.findings: list[Finding] = []
        self.felt: list[int] = []
        self.choices: list[int] = []
        self.discrete = truths(flow.discrete)
        self.outside: list[int] = []
        self.known: dict[tuple[int, int], int] = {}  # side and node of findings
        self.bench_way: dict[int, tuple[float, int]] = {}
        starts = np.searchsorted(flow.bench.table.node, np.arange(len(flow.bench.tree) + 1))
        self.bench_start: Sequence[int] = elements(starts)

        self.inherit = inheriting(self)

    def receive(self, node: int, row: int) -> None:
        """What a row holds: seen in itself, or inherited from where it came from."""
        seen, floor, producer = self.error[row], self.floor[row], self.producer[row]
        if producer >= 0:
            inherited = self.latent[producer], self.root[producer]
            if (taint := self.taint.get(producer) or self.tainted.get(row)) is not None:
                self.taint[row] = taint
        elif self.backward[node]:
            inherited = self._of_consumers(node, row)
        elif self.inside_gradient[node] and seen == seen:
            inherited = seen, -1  # a gradient: it is told where the function itself is given it
        else:
            inherited = self.written.get((self.shape[row], self.dtype[row]), NONE)
            taint = self.tainted.get(row)
            if taint is not None and taint.cause is not Cause.RANK:  # which is told where it shows
                self.taint[row] = taint
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
        self.inherit(node, row, seen, *inherited)

    def _of_consumers(self, node: int, row: int) -> tuple[float, int]:
        """A gradient is the sum of what the calls that used the tensor give back.

        Where these are larger than their sum, it may hold all that rounding moves them by.
        """
        worst, amount, shape = NONE, 0.0, self.shape[row]
        scale, shapes, starts, twin = self.scale, self.shape, self.out_start, self.twin
        errors, roots = self.put_out.error, self.put_out.root
        for consumer in self.flow.consumers.of(twin[node]):
            if (back := twin[consumer]) < 0:
                continue
            if errors[back] >= worst[0]:
                worst = max(worst, (errors[back], roots[back]))
            for one in self.outputs[starts[back] : starts[back + 1]]:
                if shapes[one] == shape and scale[one] > 0:
                    amount += max(self.latent[one], self.floor[one]) * scale[one]
        is_more = scale[row] > 0 and amount > worst[0] * scale[row]
        return (min(amount / scale[row], WORST), worst[1]) if is_more else worst

    def _is_cast_back(self, node: int) -> bool:
        """Whether it is the gradient of a cast: of none at all on the side that needs no cast."""
        return bool(self.backward[node] and self.is_cast[node])

    def _on_another_way(self, node: int, row: int) -> tuple[float, int]:
        """An error that the tensor may have come by elsewhere."""
        worst = self._of_bench(self.bench_of[row])
        parent = self.parent[node]
        if self.section[row] == Section.PARAMETERS_GRAD:
            worst = max(worst, self._of_gradients(parent))
            if row in self.uneven:
                worst = max(worst, (WORST, -1))
            if (cancelled := self.cancelling[row]) > 1.0:
                worst = max(worst[0], self.floor[row]) * cancelled, worst[1]
        elif self.section[row] == Section.OUTPUT:
            worst = max(worst, self.inside[node], self.given[node])
        elif self.producer[row] < 0 and self.section[row] == Section.INPUT:
            # It came from calls that were not recorded, from what the module had at hand.
            other = max(self.inside[parent], self.given[parent])
            # What rounding may have done elsewhere is not in a gradient whose terms agree.
            is_told = self.backward[node] and other[1] < 0 and self.made_by_both[row]
            is_open = other[1] >= 0 or not self.discrete[row] or parent > 0 or self.choices
            if is_open and not is_told:
                worst = max(worst, other)  # while no rounding makes whole numbers
        if self.backward[node] and self.producer[row] >= 0 and is_sum(self.flow, row):
            worst = max(worst, self._of_consumers(node, row))
        if self.section[row] == Section.INPUT and self.gradients.are_read_by(node):
            worst = max(worst, self.gradients.summed(row, self.latent, self.root))
        return worst

    def _of_gradients(self, backward: int) -> tuple[float, int]:
        """Parameter gradients are made of what their module was given, forward and back."""
        worst = max(self._of_pass(backward), self.inside[backward])
        for other in self.beside.get(backward, ()):
            worst = max(worst, self._of_pass(other), self.put_out[other])
            if other > backward:  # it comes later: what is seen of it
                for row in self.inputs[self.in_start[other] : self.in_start[other + 1]]:
                    if self.error[row] > worst[0]:
                        worst = self.error[row], -1
        return worst

    def _of_pass(self, backward: int) -> tuple[float, int]:
        """What a module was given so far on both ways, or what was made in it ahead."""
        twin = self.twin[backward]
        worst = self.given[backward]
        return worst if twin < 0 else max(worst, self.given[twin], self.inside[twin])

    def _of_bench(self, row: int) -> tuple[float, int]:
        """The same by way of the reference: back through calls that this run lacks."""
        producer = self.bench_producer[row] if row >= 0 else -1
        if producer < 0:
            return NONE
        paired = self.npu_of[producer]
        if paired >= 0:
            return self.latent[paired], self.root[paired]
        node = self.bench_node[producer]
        known = self.bench_way.get(node)
        if known is not None:
            return known
        self.bench_way[node] = found = NONE  # should it go round
        sections = self.flow.bench.table.section
        for one in range(self.bench_start[node], self.bench_start[node + 1]):
            if sections[one] == Section.INPUT:
                found = max(found, self._of_bench(one))
        self.bench_way[node] = found
        return found

    def _blame(self, node: int, row: int, expected: float, root: int) -> int:
        """A tensor is off although nothing that it came from is: who made it so?"""
        producer, other = self.producer[row], self.bench_of[row]
        reference = self.bench_producer[other] if other >= 0 else -1
        bench_node = self.bench_node[reference] if reference >= 0 else -1
        debug = self.node_of[producer] if producer >= 0 else -1
        is_off = self.in_norm[row] > SUSPICIOUS * self.floor[row]
        debug = self.movers[0].behind(debug, self.producer, by_norm=is_off)
        bench_node = self.movers[1].behind(bench_node, self.bench_producer, by_norm=is_off)
        taint = self.taint.get(row)
        place = Place(0, node, Cause.WIRING)
        if taint is not None:
            place = taint
        elif debug >= 0 and self.unmatched[debug]:
            place = Place(0, debug, Cause.EXTRA)
        elif bench_node >= 0 and self.bench_unmatched[bench_node]:
            place = Place(1, bench_node, Cause.MISSING)
        elif debug >= 0 and self.is_grouped[debug] and not self.is_grouped[node]:
            place = Place(0, debug, Cause.OUTPUT)  # its own output was not compared
        elif self.section[row] in (Section.OUTPUT, Section.PARAMETERS_GRAD):
            place = self.altered_inside.get(node) or Place(0, node, Cause.OUTPUT)
        elif max(debug, bench_node) < 0 or (
            self.modules_alone and (self.backward[node] or min(debug, bench_node) < 0)
        ):
            # Of modules alone nobody knows what else adds to a gradient, nor whether a tensor that
            # only one side has made is another: calls that nobody recorded made it.
            parent = self.parent[node]
            # A gradient never comes from outside, as long as something is around it. Nor does what
            # a module that is given tensors hands to those in it, where modules alone are known.
            from_outside = parent == node - 1 and not self.backward[node]  # the first one there
            if self.modules_alone:
                from_outside &= self.in_start[parent] == self.in_start[parent + 1]
            if self.section[row] != Section.PARAMETERS and self._is_unrecorded(node):
                place = Place(0, node, Cause.UNRECORDED)
            elif (
                self.section[row] == Section.PARAMETERS
                or parent <= 0
                or from_outside
                or self._is_constant(node, row)
            ):
                place = Place(0, node, Cause.EXTERNAL)
            else:
                place = self.altered_inside.get(parent) or Place(0, parent, Cause.BETWEEN)
                place = self.called_inside.get(parent, place)
                if place.cause is Cause.BETWEEN and self.backward[node]:
                    place = gives_nothing_back(self.flow, node) or place
        elif self.backward[node]:
            place = gives_nothing_back(self.flow, node) or place
        else:
            place = made_alone(self.flow, row) or place
        return self._find(place, node, row, expected, root)

    def _is_constant(self, node: int, row: int) -> bool:
        """Whether all calls were recorded, none has made it, and it takes no part in training.

        A buffer or a constant is that. What stands between modules, as no call of theirs, is made
        by no module either.
        """
        if self.modules_alone or self.backward[node] or self.is_module[node]:
            return False
        between = self.kinds[self.parent[node]] == Kind.COLLECTION
        return between or self.requires_grad[row] == 0

    def _is_unrecorded(self, node: int) -> bool:
        """Whether calls that nobody recorded make what it, no first module, is given."""
        is_inside = self.parent[node] > 0 and self.is_module[self.parent[node]]
        return self.modules_alone and not is_inside and node > self.since[node]

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


def inheriting(state: Inheritance) -> Callable[[int, int, float, float, int], None]:
    """The function by which a row holds what is seen in it, or more as what made it is worse."""
    floor, cancelling, latent, root = state.floor, state.cancelling, state.latent, state.root
    findings, felt, outside = state.findings, state.felt, state.outside
    twin, parent = state.twin, state.parent

    def inherit(node: int, row: int, seen: float, error: float, source: int) -> None:
        # What cancels is all rounding, and feels nothing.
        if source >= 0 and seen > SUSPICIOUS * floor[row] * cancelling[row]:
            at = findings[source].at
            if node != at and node != twin[at]:
                felt[source] += 1
                outside[source] += parent[node] != parent[at]
        latent[row] = seen if seen > error else error
        root[row] = source

    return inherit
