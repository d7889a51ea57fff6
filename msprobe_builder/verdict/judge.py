"""The verdict on one step and rank, by the model where it applies, by rules elsewhere."""

from __future__ import annotations

from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.model.judgement import applies, judge_by_model
from msprobe_builder.verdict.ruling.judged import Judgement
from msprobe_builder.verdict.ruling.judgement import judge_by_rules


def judge_pair(result: PairResult, *, by_model: bool = False) -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared."""
    return judge_by_model(result) if by_model and applies(result) else judge_by_rules(result)
