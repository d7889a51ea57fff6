"""Which functions of MindSpore draw random numbers, or seed them."""

from __future__ import annotations

import mindspore
from mindspore import mint, ops

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_collector.drawing.follow import SEEDS, Owner
from msprobe_collector.mindspore.names import tensor_methods


def mindspore_drawing() -> list[Owner]:
    """Those of the table of operators, where MindSpore has them."""
    modules = ((mint, "mint"), (mint.nn.functional, "mint.nn.functional"), (ops, "ops"))
    methods = [name for name, _ in tensor_methods() if _draws("Tensor", name)]
    return [
        *(
            (module, name, [one for one in dir(module) if _draws("Mint", one)])
            for module, name in modules
        ),
        (mindspore.Tensor, "Tensor", methods),
        (mindspore, "mindspore", SEEDS),
        (mint, "mint", SEEDS),
    ]


def _draws(prefix: str, name: str) -> bool:
    """Whether a function draws; classes of operators are no functions."""
    is_function = not name.startswith("_") and name.islower()
    return is_function and operator_of(f"{prefix}.{name}").kind is Kind.DRAW
