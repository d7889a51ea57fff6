"""What the columns and keys of a database are called in a report."""

from __future__ import annotations

_FACTS = {
    "npu_path": "Debug run",
    "bench_path": "Reference run",
    "noise_path": "Second run of the reference",
    "task": "Compared by",
    "created_at": "Built at",
    "builder_version": "Built with version",
}
_TASKS = {
    "statistics": "statistics",
    "tensor": "real tensors",
    "md5": "checksums",
    "structure": "structure only",
}
_REASONS = {
    "no_such_name": "no node of this name on the other side",
    "other_parent": "same name, but below a different parent",
    "other_parameter_count": "a different number of parameters",
    "other_type": "a parameter has a different type",
    "other_shape": "a parameter has a different shape",
    "partner_taken": "the only candidate is matched with another node",
    "parent_unmatched": "the module around it has no counterpart",
    "extra_call": "the other side makes this call less often here",
    "other_order": "the other side makes this call at another place",
    "other_class": "a module of another class sits at this place",
    "calls_unmatched": "none of its calls has a counterpart",
    "by_hand": "taken apart by hand",
    "rejected": "rejected by hand",
    "grouped": "found to be part of a group of calls",
}
_METRICS = {
    "cosine": "cosine",
    "euclidean_distance": "Euclidean distance",
    "max_abs_err": "max abs. error",
    "max_elementwise_relative_err": "max rel. error of an element",
    "one_thousandth_ratio": "within 1 ‰",
    "five_thousandths_ratio": "within 5 ‰",
    "relative_difference": "relative difference",
    "factor_share": "share of a factor",
    "offset_share": "share of an offset",
    "md5_equal": "checksum equal",
    "error": "contribution",
}
_SIDES = {"npu": "debug", "bench": "reference"}


def facts(meta: dict[str, str]) -> list[tuple[str, str]]:
    """What was compared and when it was built; what is for programs is left out."""
    named = [(title, meta.get(key, "")) for key, title in _FACTS.items()]
    return [
        (title, _TASKS.get(value, value) if title == _FACTS["task"] else value)
        for title, value in named
        if value
    ]


def reason_words(name: str) -> str:
    """Why a node has no partner."""
    return _REASONS.get(name, name.replace("_", " "))


def metric_words(name: str) -> str:
    """The head of a column of errors: ``max_relative_err`` is max rel. error."""
    known = name.replace("_relative_err", " rel. error").replace("_diff", " difference")
    return _METRICS.get(name, known.replace("_", " "))


def side_words(side: str) -> str:
    """Which run a side is."""
    return _SIDES.get(side, side)
