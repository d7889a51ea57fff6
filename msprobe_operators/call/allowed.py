"""Which operators may be called because a file from outside names them.

Torch registers whatever was ever needed: operators that map files, change the size of memory, look
at memory by raw offsets or take pointers for packed weights. So a name from a dump or a saved call
is called only if it is on the list: operators of ATen that the table of operators knows, or whose
forward it knows, and those of torch_npu in the table.
"""

from __future__ import annotations

import re
from functools import cache

from torch._ops import OpOverload

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import is_row, named, operator_of

# Arguments of type str that choose among ways to compute.
_CHOICES = frozenset(
    "approximate driver equation indexing interpolation mode norm ord p pad_mode padding"
    " padding_side reduce rounding_mode side UPLO".split()
)
# What goes around the name of an operator that the table knows: of its backward, of the same for a
# list of tensors, of its parts.
_AROUND = re.compile(
    r"\A(_+|foreach_|fused_|unsafe_|special_|linalg_|infinitely_differentiable_)"
    r"|(_+|_(double_)?backward(_data|_input|_weights?)?|_(dense|sparse|per_sample_weights)_backward"
    r"|_forward(_only)?|_copy|_jvp|_ex|_functional|_legit|_kernel|_interface|_for_cpu|_fallback|_aa"
    r"|_differentiable|_helper|_impl|_with_info|_with_indices)\Z"
)
# Of one library, whose operators take for packed weights or states what a tensor's bytes say.
_OF_A_LIBRARY = re.compile(r"_?(fbgemm|lstm_mps|miopen|mkldnn|mps|quantized|sparse|triton)_")


@cache
def why_not_called(operator: OpOverload) -> Fact | None:
    """Why a file may not have this operator called, None when it may."""
    schema = operator._schema
    namespace, name = schema.name.split("::")
    refused = fact("operator.not_allowed", name=f"{namespace}.{name}")
    if namespace == "npu":
        return None if operator_of(f"NPU.{name}").kind is not Kind.OTHER else refused
    if namespace != "aten" or known_row(name) is None:
        return refused
    texts = [argument.name for argument in schema.arguments if "str" in str(argument.type)]
    return None if _CHOICES.issuperset(texts) else refused


def reaches(name: str) -> bool:
    """Whether a function of this name reaches beyond its operands, whatever else it is."""
    row = operator_of(f"Aten.{name}")
    return "reaches" in row.traits or _OF_A_LIBRARY.match(name) is not None


def known_row(name: str) -> Operator | None:
    """The row of an operator of ATen or, of a backward or a part, that of the whole."""
    while name and not reaches(name):
        for one in (name, re.sub(r"_backward\Z", "_forward", name)):
            row = named(one) if is_row(one) else operator_of(f"Aten.{one}")
            if is_row(row.name):
                return row
        shorter = _AROUND.sub("", name, count=1)
        if shorter == name:
            return None
        name = shorter
    return None
