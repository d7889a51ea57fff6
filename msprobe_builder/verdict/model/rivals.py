"""What explains a clue as well, and is no fault: each has a name, and makes it a doubt."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import inputs_of, rows_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.passes import loss_divided
from msprobe_builder.verdict.model.weighing import Weighing

Bool = NDArray[np.bool_]

_SELECTS = {Kind.SLICE, Kind.PICK, Kind.FILTER}
_FEW, _FEW_OF = 2, 0.1  # data and weights, or their share, that differ where others are equal
_LISTED = 2  # dots in the name of what stands in a list in a tuple of indices
_GROSS = 0.002  # less than elements of other places are off by


class Rivals:
    """The rivals of the clues of one comparison, the first that holds."""

    def __init__(self, evidence: Evidence, weighing: Weighing) -> None:
        self.evidence = evidence
        self.weighing = weighing
        self.runs = evidence.runs

    def beside(self, clue: Clue) -> Clue:
        """The clue with its rival, if it has one."""
        if clue.rival or clue.meets_again:
            return clue
        shows_places = self._shows_places(clue)
        moved = self._reordered_before(clue, Section.PARAMETERS) if shows_places else None
        if moved is not None:  # no doubt, as all others are equal to the last digit
            return clue if moved == clue.node else replace(clue, node=moved, cause=Cause.ORDER)
        is_reordered = shows_places and self._reordered_before(clue, Section.INPUT) is not None
        if is_reordered and self.weighing.explains("places", clue):
            return replace(clue, rival="places")  # samples may come in any order
        for name, holds in (
            ("passes", self._of_passes),
            ("passes", self._of_calls_again),
            ("chosen", self._of_choices),
            ("unknown", self._of_unknown),
            ("sum_of_uses", self._of_uses),
            ("places", self._of_places),
        ):
            if holds(clue) and self.weighing.explains(name, clue):
                return replace(clue, rival=name)
        return clue

    def _of_passes(self, clue: Clue) -> bool:
        """The sides make other numbers of passes: a loss is divided by them, gradients add up."""
        if loss_divided(self.evidence, clue):
            return True
        if self.runs.npu.tree.micro_steps == self.runs.bench.tree.micro_steps:
            return False
        return clue.row >= 0 and self.runs.npu.table.section[clue.row] == Section.PARAMETERS_GRAD

    def _of_calls_again(self, clue: Clue) -> bool:
        """A module goes back another number of times than there: its gradients add up."""
        table = self.runs.npu.table
        if clue.row < 0 or table.section[clue.row] != Section.PARAMETERS_GRAD:
            return False
        node = int(table.node[clue.row])
        partner = int(self.runs.partner[node])
        if partner < 0:
            return False
        here, there = self._times_back
        debug = self.runs.npu.tree.names[node]
        reference = self.runs.bench.tree.names[partner]
        return here[_module_of(debug)] != there[_module_of(reference)]

    @cached_property
    def _times_back(self) -> tuple[Counter[str], Counter[str]]:
        """Of both sides how often each module is called backward, by its name."""
        back = f".{Direction.BACKWARD.name.lower()}."
        here, there = (
            Counter(name.partition(back)[0] for name in part.tree.names if back in name)
            for part in (self.runs.npu, self.runs.bench)
        )
        return here, there

    def _of_choices(self, clue: Clue) -> bool:
        """A list of places among an index was chosen from numbers that noise has moved."""
        given = self.evidence.arguments.get(clue.node, [])
        if clue.cause is not Cause.ARGUMENT or clue.side or not given:
            return False
        is_noisy = self.runs.is_mixed or bool((self.evidence.noise > 0).any())
        if not is_noisy or not all(
            one.is_count and one.name.count(".") >= _LISTED for one in given
        ):
            return False
        # What was learnt as noise may all come of the fault itself; where nothing before it has
        # moved, rounding has chosen nothing.
        done = self.runs.npu.tree.subtree_end < clue.node
        done &= self.runs.npu.calls.direction == Direction.FORWARD
        return bool((self.evidence.seen.size[done[self.runs.npu.table.node]] > 0).any())

    def _of_unknown(self, clue: Clue) -> bool:
        """What went into it was not recorded, or not compared."""
        if clue.row < 0 or clue.side:
            return False
        table, row = self.runs.npu.table, clue.row
        if clue.cause is Cause.EXTRA and self.evidence.is_merged:
            row = int(self.runs.origin[row])  # a call between ranks, which a whole model has not
        elif clue.cause is not Cause.OUTPUT or table.section[row] != Section.OUTPUT:
            return False
        at = int(table.node[row])
        if row < 0 or not self.runs.npu.calls.is_api[at]:
            return False
        ahead = int(self.runs.npu.calls.twin[at]) if self.runs.backward[at] else -1
        if ahead >= 0 and not _has_rows(table, ahead):
            return True  # nobody knows what the forward call kept
        given = inputs_of(table, at)
        known = ~np.isnan(self.evidence.expected.latent[given]) | self.runs.discrete[given]
        there = self.evidence.paired[given]
        resized = table.numel[given] != self.runs.bench.table.numel[there]
        known &= (there < 0) | ~resized | np.isnan(table.numel[given])
        return not (len(given) and bool(known.all()))

    def _of_uses(self, clue: Clue) -> bool:
        """A gradient is the sum of what several give back, which nobody records."""
        made = (Cause.BETWEEN, Cause.EXTERNAL, Cause.UNRECORDED)
        if clue.cause not in made or clue.row < 0 or clue.side:
            return False
        at = int(self.runs.npu.table.node[clue.row])
        return bool(self.runs.backward[at]) or self._is_optimized(clue.row)

    def _is_optimized(self, row: int) -> bool:
        """Whether it is what an optimizer is given: a gradient that was added up over passes."""
        table, at = self.runs.npu.table, int(self.runs.npu.table.node[row])
        is_behind = self.runs.npu.calls.is_api[at] and bool(self.runs.backward[:at].any())
        return bool(is_behind and self._sizes_of_gradients[table.shape_id[row]])

    @cached_property
    def _sizes_of_gradients(self) -> Bool:
        """By shape whether a parameter's gradient has it."""
        table = self.runs.npu.table
        result = np.zeros(int(table.shape_id.max(initial=0)) + 1, dtype=bool)
        result[table.shape_id[self.runs.rows(Section.PARAMETERS_GRAD)]] = True
        return result

    def _of_places(self, clue: Clue) -> bool:
        """What it is given may stand at other places, which statistics do not tell."""
        if not self._shows_places(clue):
            return False
        calls, at = self.runs.npu.calls, int(self.runs.npu.table.node[clue.row])
        given = inputs_of(self.runs.npu.table, at)
        if calls.operators[int(calls.stem[at])].kind in _SELECTS and self.runs.partner[at] >= 0:
            return bool((~self._is_exact[given]).any())
        return bool(self._is_reordered[given].any() or (calls.is_api[at] and self._has_indices[at]))

    def _shows_places(self, clue: Clue) -> bool:
        """Whether elements at other places may make a call put out what it does."""
        if clue.cause is not Cause.OUTPUT or clue.row < 0 or clue.side:
            return False
        calls, at = self.runs.npu.calls, int(self.runs.npu.table.node[clue.row])
        if self.runs.backward[at] or self.runs.open[at]:
            return False
        # In one number that is made of many, other places show as little as anything.
        if clue.error < _GROSS and self.runs.npu.table.numel[clue.row] > 1:
            return False
        is_lookup = calls.operators[int(calls.stem[at])].kind is Kind.LOOKUP  # in any order
        return not is_lookup and not bool(self.evidence.seen.is_factor[clue.row])

    @cached_property
    def _is_exact(self) -> Bool:
        """Rows of which elements, sketches or checksums were compared, or one number is all."""
        seen, table = self.evidence.seen, self.runs.npu.table
        alike = table.statistics[0] == table.statistics[1]
        return np.asarray(~np.isnan(seen.exact) | alike | (table.numel == 1))

    @cached_property
    def _is_reordered(self) -> Bool:
        """Rows of the same extremes and other sums: perhaps the same numbers at other places."""
        moved = self.evidence.seen.moved
        same = (moved[:2] == 0).all(axis=0) & (moved[2:] > 0).any(axis=0)
        return np.asarray(same & ~self._is_exact & ~self.runs.discrete)

    @cached_property
    def _few_moved(self) -> Bool | None:
        """Data and weights that stand in another order, where they are few and all that differ.

        On another device a recorder takes most sums in another order.
        """
        table = self.runs.npu.table
        given = self.runs.rows(Section.INPUT, Section.PARAMETERS) & (self.runs.origin < 0)
        given &= ~self.runs.discrete & (self.runs.other >= 0) & ~self.runs.backward[table.node]
        moved = given & self._is_reordered
        differs = np.count_nonzero(given & (self.evidence.seen.size > 0))
        few = max(_FEW, int(_FEW_OF * np.count_nonzero(given)))
        return moved if 0 < np.count_nonzero(moved) == differs <= few else None

    def _reordered_before(self, clue: Clue, section: Section) -> int | None:
        """The nearest call before that is given data, or weights, in another order."""
        if self._few_moved is None:
            return None
        table, maker = self.runs.npu.table, self.runs.origin
        moved = self._few_moved & (table.section == section)
        pending, seen = [int(table.node[clue.row])], set[int]()
        while pending:
            node = pending.pop(0)
            rows = inputs_of(table, node)
            made = maker[rows][maker[rows] >= 0]
            if moved[rows].any() or moved[made].any():
                return node
            before = set(table.node[made].tolist())
            pending += sorted(before - seen, reverse=True)
            seen |= before
        return None

    @cached_property
    def _has_indices(self) -> Bool:
        """Calls that are given whole numbers of which nobody compared the order."""
        table = self.runs.npu.table
        rows = self.runs.rows(Section.INPUT) & self.runs.discrete & ~self._is_exact
        result = np.zeros(len(self.runs.npu.tree), dtype=bool)
        result[table.node[rows & (table.numel > 1)]] = True
        return result


def _module_of(name: str) -> str:
    """The module of a record of gradients of its parameters."""
    return name.partition(".parameters_grad")[0]


def _has_rows(table: ParameterTable, node: int) -> bool:
    """Whether a call has put out or taken in any tensor; rows stand in the order of calls."""
    return len(rows_of(table, node)) > 0
