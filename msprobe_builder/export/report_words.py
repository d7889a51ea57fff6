"""What the columns and keys of a database are called in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msprobe_builder.base import codes
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import SIDE

_TASK = "task"
TASK, CREATED = fact("report.task"), fact("report.created_at")
_FACTS = {
    "npu_name": fact("report.debug"),
    "npu_path": fact("report.debug_run"),
    "bench_name": fact("report.reference"),
    "bench_path": fact("report.reference_run"),
    "noise_path": fact("report.noise_run"),
    _TASK: TASK,
    "created_at": CREATED,
    "builder_version": fact("report.version"),
}
_TASKS = {
    "statistics": fact("report.task.statistics"),
    "tensor": fact("report.task.tensor"),
    "md5": fact("report.task.md5"),
    "structure": fact("report.task.structure"),
}
_REASONS = {
    "no_such_name": fact("unmatched.no_such_name"),
    "other_parent": fact("unmatched.other_parent"),
    "other_parameter_count": fact("unmatched.other_parameter_count"),
    "other_type": fact("unmatched.other_type"),
    "other_shape": fact("unmatched.other_shape"),
    "partner_taken": fact("unmatched.partner_taken"),
    "parent_unmatched": fact("unmatched.parent_unmatched"),
    "extra_call": fact("unmatched.extra_call"),
    "other_order": fact("unmatched.other_order"),
    "other_class": fact("unmatched.other_class"),
    "calls_unmatched": fact("unmatched.calls_unmatched"),
    "by_hand": fact("unmatched.by_hand"),
    "rejected": fact("unmatched.rejected"),
    "grouped": fact("unmatched.grouped"),
}
# Differences in units of the tensor say little in a list of different tensors.
METRICS = {
    "max_relative_err": fact("metric.max_relative_err"),
    "min_relative_err": fact("metric.min_relative_err"),
    "mean_relative_err": fact("metric.mean_relative_err"),
    "norm_relative_err": fact("metric.norm_relative_err"),
    "cosine": fact("metric.cosine"),
    "max_abs_err": fact("metric.max_abs_err"),
    "max_elementwise_relative_err": fact("metric.max_elementwise_relative_err"),
    "one_thousandth_ratio": fact("metric.one_thousandth_ratio"),
    "relative_difference": fact("metric.relative_difference"),
    "factor_share": fact("metric.factor_share"),
    "offset_share": fact("metric.offset_share"),
    "md5_equal": fact("metric.md5_equal"),
    "error": fact("metric.error"),
}
SIDES = dict(zip(codes.SIDES, SIDE, strict=True))
SECTIONS = (  # in the order of base.codes.Section
    *(fact("section.input"), fact("section.output")),
    *(fact("section.parameters"), fact("section.parameters_grad")),
)
OVERFLOWS = (  # in the order of base.codes.Overflow, from the first that is one
    *(fact("overflow.medium"), fact("overflow.high"), fact("overflow.critical")),
)
STRENGTHS = {"strong": fact("strength.strong"), "weak": fact("strength.weak")}
SEVERITIES = {
    "info": fact("severity.info"),
    "warning": fact("severity.warning"),
    "error": fact("severity.error"),
}


def facts(meta: Mapping[str, str], relative: Callable[[str], str]) -> list[tuple[Fact, Fact | str]]:
    """What was compared and when it was built; what is for programs is left out.

    ``relative`` makes paths of this machine short.
    """
    named = [(key, title, meta.get(key, "")) for key, title in _FACTS.items()]
    return [
        (title, _TASKS.get(value, value) if key == _TASK else relative(value))
        for key, title, value in named
        if value
    ]


def reason_words(name: str) -> Fact | str:
    """Why a node has no partner."""
    return _REASONS.get(name, name.replace("_", " "))


def side_words(side: str) -> Fact | str:
    """Which run a side is."""
    return SIDES.get(side, side)
