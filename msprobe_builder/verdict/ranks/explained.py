"""What the merging of ranks explains of what differs, and what it shows itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.graph.kept_parameters import keeps_parameters
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.findings import WEIGHTS, Cause
from msprobe_builder.verdict.model.clue import CERTAIN, COUNTED, DOUBTED, ONE_SIDED, Clue, Evidence
from msprobe_builder.verdict.model.telling import told_of_arguments
from msprobe_builder.verdict.model.weighing import Weighing
from msprobe_builder.verdict.ranks.apart import (
    disagreeing,
    mixed_with_own,
    own_factors,
    with_own_factors,
)
from msprobe_builder.verdict.ranks.layers import (
    DoneOtherwise,
    done_otherwise,
    explained_flags,
    flags_of_layers,
    follows_from_shares,
    is_added_up_later,
    is_rest_of_sum,
    shares_taken,
    telling_flags,
)
from msprobe_builder.verdict.ranks.norms import OwnNorms, own_norms, wrong_numbers
from msprobe_builder.verdict.ranks.updates import Updates, updates_of_parts
from msprobe_builder.verdict.ruling.conclusion import told_of_flags, told_of_norms

Bool = NDArray[np.bool_]

_VAGUE = 0.02  # of its size, what putting together of statistics may be off by
_HANDED_ON = (*ONE_SIDED, Cause.EXTERNAL, Cause.BETWEEN, Cause.WIRING)
_NUMBERS = (Cause.OUTPUT, *ONE_SIDED)  # shown by numbers alone


@dataclass(frozen=True)
class OfRanks:
    """What is known of a comparison because a side of it was put together from ranks."""

    evidence: Evidence  # without arguments that the split explains
    provenance: Provenance | None
    result: PairResult
    norms: OwnNorms
    flags: dict[int, list[Argument]]  # explained ones
    counts: dict[int, list[Argument]]  # of a rank's own parts
    otherwise: DoneOtherwise
    shares: list[int]
    updates: Updates | None

    @property
    def judged(self) -> Bool:
        """Calls without a counterpart of which is known what they hand over."""
        runs = self.evidence.runs
        keeps = keeps_parameters(runs.npu.calls, runs.npu.tree.parent) & (runs.partner < 0)
        return self.otherwise.known | keeps

    def unexplained(self, found: Sequence[Clue], weighing: Weighing) -> list[Clue]:
        """The clues of numbers that are no fault for the way in which the model was split."""
        return [
            self._marked(one, weighing)
            for one in (*found, *weighing.wanted(self.otherwise.clues))
            if not (
                (self.otherwise.explains(self.evidence, one) or self._explains(one))
                and weighing.explains("split", one)
            )
        ]

    def _explains(self, clue: Clue) -> bool:
        """Whether it is no fault for the way in which the model was split."""
        evidence = self.evidence
        is_rounding = clue.cause in _NUMBERS and clue.row >= 0 and clue.error < self._half(clue)
        return (
            is_rounding
            or self._joins(clue)
            or is_added_up_later(evidence, clue)
            or self.norms.explains(evidence, clue)
            or follows_from_shares(evidence, clue, self.shares)
            or is_rest_of_sum(evidence, clue)
            or (self.updates is not None and self.updates.explains(evidence, clue))
        )

    def _joins(self, clue: Clue) -> bool:
        """Whether a call joins tensors, of which as many as there are ranks have other numbers."""
        calls = self.evidence.runs.npu.calls
        is_lacking = clue.cause is Cause.ARGUMENT and clue.row < 0 and not clue.side
        return is_lacking and calls.operators[int(calls.stem[clue.node])].kind is Kind.JOIN

    def _half(self, clue: Clue) -> float:
        """Half precision: parts added in another order are off by as much as one is rounded."""
        unit = float(self.evidence.runs.coarse[clue.row])
        return unit if unit > _HALF else 0.0

    def _marked(self, clue: Clue, weighing: Weighing) -> Clue:
        """The clue, vague where it is no larger than what merging may be off by."""
        marked = self._vague(clue)
        is_new = marked.rival == "merged" and clue.rival != "merged"
        return marked if not is_new or weighing.explains("merged", clue) else clue

    def _vague(self, clue: Clue) -> Clue:
        runs, table = self.evidence.runs, self.evidence.runs.npu.table
        if clue.cause is Cause.ARGUMENT and clue.row < 0:
            return replace(clue, rival="merged")  # given by ranks in other ways
        if clue.cause in (*COUNTED, Cause.PART, *WEIGHTS) or clue.row < 0:
            return clue  # parts of weights are put together to the last digit
        if clue.side == 0 and clue.node in self.counts:
            told = told_of_arguments(self.counts[clue.node])
            return replace(clue, rival="merged", told=(*clue.told, *told))
        if own_factors(table, self.provenance, clue.node) and clue.side == 0:
            return clue
        is_single = table.numel[clue.row] == 1 and table.node[clue.row] > runs.npu.calls.last_pass
        is_made = clue.cause is Cause.EXTERNAL and table.requires_grad[clue.row] == 1
        # What ranks hand on to each other inside is no call of the reference.
        is_made |= clue.cause in _HANDED_ON and self.otherwise.around[table.node[clue.row]] >= 0
        is_vague = clue.error < _VAGUE or is_single or is_made or clue.cause is Cause.GRADIENT
        return replace(clue, rival="merged") if is_vague else clue

    def clues(self) -> Iterable[Clue]:
        """What ranks show that differ from one another."""
        runs, provenance = self.evidence.runs, self.provenance
        yield from wrong_numbers(runs.npu.table, self.norms)
        if self.updates is not None:
            yield from self.updates.clues()
        for node, row in with_own_factors(self.evidence, provenance):
            yield Clue(CERTAIN, 0, node, Cause.RANK, row)
        assert self.result.comparisons is not None
        assert self.result.bench is not None
        apart = disagreeing(
            runs.npu.tree,
            runs.npu.table,
            provenance,
            self.result.bench.provenance,
            self.result.comparisons.pairs,
        )
        known: set[int] = set()
        for row, place in apart.items():
            stem = int(runs.npu.calls.stem[place.node])
            assert provenance is not None
            if stem in known or not any(one.is_origin for one in provenance.apart[row]):
                continue
            known.add(stem)
            section = runs.npu.table.section[row]
            if section == Section.PARAMETERS and self.evidence.off[row]:
                continue  # the weight tells itself
            is_gradient = section == Section.PARAMETERS_GRAD
            score = DOUBTED if is_gradient else CERTAIN
            told = tuple(told_of_arguments(self.counts.get(place.node, ())))
            rival = "merged" if is_gradient else ""
            node = mixed_with_own(runs, provenance, place.node)
            yield Clue(score, 0, node, Cause.RANK, row, rival=rival, told=told)

    def said(self, *, is_clean: bool, is_fault: bool) -> Facts:
        """What was passed over, and what nobody could compare."""
        names, said = self.evidence.runs.npu.tree.names, []
        if is_clean and self.flags:
            said.append(told_of_flags(names, self.flags))
        if is_clean and self.shares:
            said.append(fact("shares_taken", calls=len(self.shares), name=names[self.shares[0]]))
        if is_clean and self.norms.explained:
            norms = self.norms
            said += told_of_norms(names, norms.explained, norms.norms, is_total=norms.is_total)
        if self.updates is not None and not is_fault:
            said.append(self.updates.told_of_all())
        return tuple(said)


_HALF = 2.0**-12


def of_ranks(evidence: Evidence, result: PairResult) -> OfRanks:
    """What merging explains, of sides of which one at least was merged."""
    assert result.bench is not None
    assert result.comparisons is not None
    npu, bench = result.npu.provenance, result.bench.provenance
    runs = evidence.runs
    flags = flags_of_layers(evidence)
    own = {node: several for node, several in evidence.arguments.items() if node not in flags}
    counts = {
        node: several
        for node, several in own.items()
        if all(one.is_slight or one.is_count for one in several)
    }
    others = {node: several for node, several in own.items() if node not in counts}
    told = replace(evidence, arguments=others | telling_flags(evidence, flags))
    return OfRanks(
        told,
        npu,
        result,
        own_norms(runs, npu, bench, runs.texts),
        explained_flags(evidence, flags),
        counts,
        done_otherwise(evidence),
        shares_taken(runs, npu),
        updates_of_parts(runs, npu, result.comparisons.pairs),
    )
