"""The verdict on one step and rank: by rules, by the model of error, or by what both find.

The model names the place of faults better that nobody had seen, the rules know more kinds of runs
that are right. So the model says where a fault is, and rules must agree that there is one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import has_code
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.judgement import applies, judge_by_model
from msprobe_builder.verdict.ruling.conclusion import CLEAN, FAULT, conclude
from msprobe_builder.verdict.ruling.judged import Judgement, Suspect, label
from msprobe_builder.verdict.ruling.judgement import judge_by_rules

Judge = Literal["rules", "model", "both"]


def judge_pair(result: PairResult, judge: Judge = "rules") -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared.

    Rules judge alone where the model does not apply.
    """
    if judge == "model" and applies(result):
        return judge_by_model(result)
    by_rules = judge_by_rules(result)
    if judge == "rules" or by_rules is None or not applies(result):
        return by_rules
    return _agreed(result, by_rules, judge_by_model(result))


def _agreed(result: PairResult, by_rules: Judgement, by_model: Judgement) -> Judgement:
    """What both say together: a fault for certain where both see one, at the model's place."""
    if has_code(by_rules.said, "reduced_products"):
        return by_rules  # of which the model knows nothing
    is_fault = by_rules.conclusion == FAULT
    if by_rules.suspects and _is_told_better(by_rules.suspects[0], by_model):
        return by_rules
    doubted = {_place(one) for one in by_rules.suspects if one.strength is not Strength.STRONG}
    if is_fault and doubted.intersection(map(_place, by_model.suspects[:1])):
        return by_rules
    if is_fault and by_model.conclusion == FAULT:
        return _with(by_model, by_rules.suspects[0])
    if by_model.conclusion != FAULT and by_rules.conclusion == CLEAN:
        limits = tuple(one for one in by_model.said if one.code.startswith("limits"))
        return replace(by_rules, said=(*by_rules.said, *limits))
    if not by_model.suspects and not is_fault:
        return by_rules
    return _doubted(result, by_rules if is_fault else by_model)


# What rules know more of than where it is.
_TOLD_BETTER = {
    *(Cause.EXTERNAL, Cause.WEIGHT, Cause.WEIGHTS, Cause.RANDOM, Cause.RANK, Cause.NUMBER),
    *(Cause.PART, Cause.UNRECORDED),
}


def _is_told_better(first: Suspect, by_model: Judgement) -> bool:
    """Whether rules say more of a suspect of theirs: what it is, or the same place."""
    return first.cause in _TOLD_BETTER or _place(first) in map(_place, by_model.suspects[:1])


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
