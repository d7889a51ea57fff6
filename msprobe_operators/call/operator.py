"""What an ATen operator does to its operands, read from its schema and tags."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import operator_of


@cache
def operator_name(operator: OpOverload) -> str:
    """``torch.ops.aten.mul.Tensor``; the overload ``default`` is left out."""
    namespace, name = operator._schema.name.split("::")
    overload = operator._overloadname
    return f"torch.ops.{namespace}.{name}" + ("" if overload == "default" else f".{overload}")


@cache
def base_name(operator: OpOverload) -> str:
    """``mul`` of ``aten::mul_.Tensor``: without namespace, overload and the mark of in-place."""
    name = operator._schema.name.split("::")[1]
    return name.rstrip("_") if not name.endswith("__") else name


@cache
def row_of(operator: OpOverload) -> Operator:
    """What the table of operators says of it."""
    return operator_of(f"Aten.{operator._schema.name.split('::')[1]}")


@cache
def is_random(operator: OpOverload) -> bool:
    """Whether running it twice may give two results."""
    if torch.Tag.nondeterministic_seeded in operator.tags:
        return True
    return row_of(operator).kind is Kind.DRAW  # whatever its tags say


@cache
def is_uninitialised(operator: OpOverload) -> bool:
    """Whether what it returns is memory as it was found."""
    row = row_of(operator)
    return row.kind is Kind.EMPTY or row.name in ("set", "efficientzerotensor")


@cache
def is_view(operator: OpOverload) -> bool:
    """Whether it only looks at an operand in another way, computing nothing."""
    returns = operator._schema.returns
    return bool(returns) and all(
        result.alias_info is not None and not result.alias_info.is_write for result in returns
    )


@cache
def written_arguments(operator: OpOverload) -> frozenset[str]:
    """Names of the operands it writes to."""
    return frozenset(
        argument.name
        for argument in operator._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def by_name(operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call under the names of the schema."""
    names = [argument.name for argument in operator._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def find_operator(name: str) -> OpOverload:
    """The operator of a name as ``operator_name`` writes it; ValueError when there is none."""
    parts = name.removeprefix("torch.ops.").split(".")
    if len(parts) not in (2, 3) or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{name!r} is no operator's name such as torch.ops.aten.mul.Tensor.")
    try:
        packet = getattr(getattr(torch.ops, parts[0]), parts[1])
        overload = getattr(packet, parts[2] if len(parts) == 3 else "default")
    except (AttributeError, RuntimeError) as error:
        raise ValueError(
            f"This torch has no operator {name}; import the library that registers it first."
        ) from error
    if not isinstance(overload, OpOverload):
        raise ValueError(f"{name} is no operator.")
    return overload
