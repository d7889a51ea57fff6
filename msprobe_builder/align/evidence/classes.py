"""What a module of a class that frameworks define does; two that do different things are no pair.

Only names that say one thing wherever they stand: a class of a model may be called anything else.
"""

from __future__ import annotations

from functools import cache

from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import named, spellings


def kind_of_class(name: str) -> int:
    """A number for each kind of module, -1 of a class that may be any."""
    return _kinds().get(name, -1)


@cache
def _kinds() -> dict[str, int]:
    numbers: dict[str, int] = {}
    found = {}
    for row, names in spellings("class").items():
        kind = _kind(named(row))
        if kind:
            found.update(dict.fromkeys(names, numbers.setdefault(kind, len(numbers))))
    return found


_BY_KIND = {
    Kind.POINTWISE: "activation",
    Kind.GATE: "activation",
    Kind.DRAW: "dropout",
    Kind.LOOKUP: "embedding",
    Kind.LOSS: "loss",
    Kind.SHAPE: "shape",
}


def _kind(operator: Operator) -> str:
    """Nothing for what does several things, or one that has no others beside it."""
    if operator.name == "identity":  # as dropout that drops nothing
        return "dropout"
    if operator.name == "rrelu":
        return "activation"
    if operator.name.endswith("norm"):
        return "norm"
    if operator.kind is Kind.NORMALISE:
        return "softmax"
    if operator.kind is Kind.PRODUCT:
        if "layer_norm" in operator.parts:
            return ""
        several = {"attention": "attention", "recurrent": "recurrent", "cell": "recurrent"}
        return next((kind for one, kind in several.items() if one in operator.traits), "linear")
    if operator.kind is Kind.POOL:
        return "pool" if "pool" in operator.name else "resampling" if _resamples(operator) else ""
    return _BY_KIND.get(operator.kind, "")


def _resamples(operator: Operator) -> bool:
    return operator.name in ("interpolate", "pixel_shuffle")
