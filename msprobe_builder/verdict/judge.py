"""The verdict on one step and rank: by rules, by the model of error, or by what both find.

The model names the place of faults better that nobody had seen, the rules know more kinds of runs
that are right. So the model says where a fault is, and rules must agree that there is one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msprobe_builder.base.codes import Strength
from msprobe_builder.base.options import Judge
from msprobe_builder.facts.fact import Facts
from msprobe_builder.graph.calls import count_gradients_otherwise
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.differences.operators import has_other_precision
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.judgement import applies, judge_by_model
from msprobe_builder.verdict.ruling.conclusion import FAULT, conclude
from msprobe_builder.verdict.ruling.judged import Judgement, Suspect, label
from msprobe_builder.verdict.ruling.judgement import judge_by_rules


def judge_pair(result: PairResult, judge: Judge) -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared.

    Rules judge alone where the model does not apply.
    """
    by_model = judge_by_model(result) if judge != "rules" and applies(result) else None
    if by_model is not None and judge == "model":
        return by_model
    by_rules = judge_by_rules(result)
    if by_rules is None or by_model is None:
        return by_rules
    return _agreed(result, by_rules, by_model)


def _agreed(result: PairResult, by_rules: Judgement, by_model: Judgement) -> Judgement:
    """What both say together: a fault for certain where both see one, at the model's place."""
    sees, model_sees = by_rules.conclusion == FAULT, by_model.conclusion == FAULT
    first = by_model.suspects[0] if by_model.suspects else None
    if first is None and (not sees or _told_by_other_recorders(result)):
        clean = by_model if _told_by_other_recorders(result) else by_rules
        return replace(clean, said=(*clean.said, *_told_of_limits(by_model, clean)))
    if first is None or (sees and not model_sees):
        if first is None or _is_of_modules(result):
            return by_rules if _is_of_modules(result) else _doubted(result, by_rules)
        return _with(_doubted(result, by_model), by_rules.suspects[0])
    if not sees and _is_known(result, by_rules):
        return by_rules
    if model_sees and _is_measured(result):
        return _with(by_model, by_rules.suspects[0]) if by_rules.suspects else by_model
    if not sees:
        same = bool(by_rules.suspects) and _place(by_rules.suspects[0]) == _place(first)
        return by_rules if same else _doubted(result, by_model)
    if by_rules.suspects and _is_told_better(by_rules, first):
        return by_rules
    return _with(by_model, by_rules.suspects[0])


def _is_known(result: PairResult, by_rules: Judgement) -> bool:
    """Whether rules, which see no fault for certain, know what it is that the model sees."""
    assert result.bench is not None
    steps = [int(one.tree.micro_step.max(initial=0)) for one in (result.npu, result.bench)]
    causes = [one.cause for one in by_rules.suspects[:1]]
    return steps[0] != steps[1] or bool(_KNOWN & set(causes))


def _told_by_other_recorders(result: PairResult) -> bool:
    """Whether one recorder adds gradients up and the other does not: rules take that for more."""
    assert result.bench is not None
    return count_gradients_otherwise(result.npu.tree.calls, result.bench.tree.calls)


def _is_of_modules(result: PairResult) -> bool:
    """Whether nothing but modules was recorded, in half precision, where rules see more."""
    assert result.bench is not None
    assert result.comparisons is not None
    npu = Part(result.npu.tree, result.npu.table)
    is_mixed = has_other_precision(npu, result.bench.table, result.comparisons)
    return is_mixed and not bool(npu.calls.is_api.any())


def _is_measured(result: PairResult) -> bool:
    """Whether elements themselves, or sketches of them, were compared, and not numbers alone."""
    assert result.comparisons is not None
    metrics = result.comparisons.metrics
    return any(
        one in metrics and bool(metrics[one].known.any())
        for one in ("relative_difference", "euclidean_distance")
    )


def _told_of_limits(by_model: Judgement, other: Judgement) -> Facts:
    """What a difference must be to be seen, and what was not compared."""
    known = {one.code for one in other.said}
    return tuple(
        one
        for one in by_model.said
        if one.code in ("limits", "limits.forward", "not_judged.gradients")
        and one.code not in known
    )


_KNOWN = {Cause.RANDOM, Cause.RANK, Cause.NUMBER, Cause.PART, Cause.UNRECORDED}
# What rules know more of than where it is.
_TOLD_BETTER = {
    *(Cause.EXTERNAL, Cause.WEIGHT, Cause.WEIGHTS, Cause.RANDOM, Cause.RANK, Cause.NUMBER),
    *(Cause.PART, Cause.UNRECORDED),
}


def _is_told_better(by_rules: Judgement, first: Suspect) -> bool:
    """Whether rules say more of the same place, or what it is."""
    best = by_rules.suspects[0]
    if by_rules.conclusion != FAULT or best.cause in _TOLD_BETTER:
        return True
    return _place(first) == _place(best)


def _doubted(result: PairResult, told: Judgement) -> Judgement:
    """The same, certain of nothing."""
    suspects = [replace(one, strength=Strength.WEAK) for one in told.suspects]
    conclusion, said = conclude(
        [(one.strength, label(one, result), one.evidence, one.source) for one in suspects],
        told.compared,
        unjudged=0,
        choice=None,
    )
    known = {one.code for one in (*told.suspects[0].evidence, *said)}
    rest = [one for one in told.said if one.code not in known and one.code != "accused"]
    return replace(told, suspects=suspects, conclusion=conclusion, said=(*said, *rest))


def _with(by_model: Judgement, other: Suspect) -> Judgement:
    """The model's, with the place that rules name behind its own first."""
    if any(_place(one) == _place(other) for one in by_model.suspects):
        return by_model
    first, *rest = by_model.suspects
    later = np.where(by_model.suspect > 0, by_model.suspect + 1, by_model.suspect)
    weak = replace(other, strength=Strength.WEAK)
    return replace(by_model, suspects=[first, weak, *rest], suspect=later)


def _place(one: Suspect) -> tuple[int, int]:
    return one.side, one.node
