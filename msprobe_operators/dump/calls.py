"""Calls of a dump: which function of torch they were, and which can be run again.

Names in a dump come from anywhere. Only functions that torch itself lists as overridable, that
is functions of tensors, and operators on a list of our own are ever called, and only with tensors,
numbers and short texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import GetSetDescriptorType
from typing import Any

import torch

from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.questions import is_uninitialised
from msprobe_builder.operators.table import draws, is_row, operator_of
from msprobe_operators.call import operator as of_torch
from msprobe_operators.call.allowed import known_row, reaches, why_not_called
from msprobe_operators.dump.mindspore import is_of_mindspore, name_in_torch, record_in_torch

_PLACES: dict[str, Any] = {
    "Functional": torch.nn.functional,
    "Tensor": torch.Tensor,
    "Torch": torch,
    "VF": torch._VF,
}

_MODULES = ("Module", "Cell")
_MOVES = (Kind.TRANSPOSE, Kind.SLICE)


@dataclass(frozen=True)
class RecordedCall:
    """One call of a dump, forward, with the record of its backward when there is one."""

    name: str  # Functional.linear.0
    record: dict[str, Any]
    backward: dict[str, Any] | None
    other_name: str = ""  # by which torch knows a call of another framework

    @property
    def in_torch(self) -> str:
        """Its name as torch has it."""
        return self.other_name or self.name

    @property
    def directions(self) -> tuple[str, ...]:
        """``forward`` and, where one was recorded, ``backward``."""
        return ("forward",) if self.backward is None else ("forward", "backward")


def recorded_calls(path: Path) -> Iterator[RecordedCall]:
    """All API calls of dump.json in their order, modules left out; BuildError when damaged."""
    forward: dict[str, dict[str, Any]] = {}
    backward: dict[str, dict[str, Any]] = {}
    for name, record in DumpReader(path):
        stem, _, direction = name.rpartition(".")
        if not isinstance(record, dict) or name.split(".", 1)[0] in _MODULES:
            continue
        if direction == "forward":
            forward[stem] = record
        elif direction == "backward":
            backward[stem] = record
    for stem, record in forward.items():
        back = backward.get(stem)
        if is_of_mindspore(record):
            yield RecordedCall(stem, *record_in_torch(record, back), name_in_torch(stem))
        else:
            yield RecordedCall(stem, record, back)


def tensor_leaves(value: Any) -> Iterator[dict[str, Any]]:
    """The records of tensors in a part of a record, in the order in which they were given."""
    if isinstance(value, dict) and "shape" in value and "dtype" in value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensor_leaves(item)


def function_of(call: RecordedCall) -> Callable[..., Any] | Fact:
    """The function a call's name means, or why it is not run again."""
    parts = call.in_torch.split(".")
    if len(parts) < 3:
        return fact("operator.no_call")
    kind, function = parts[0], ".".join(parts[1:-1])
    if kind == "Distributed":
        return fact("operator.communication")
    if kind == "Aten":
        return _aten(function)
    if kind not in _PLACES:
        return fact("operator.unknown_prefix", prefix=kind)
    operator = operator_of(f"{kind}.{function}")
    if _draws(operator, call.record):
        return fact("operator.draws")
    if is_uninitialised(operator):
        return fact("operator.uninitialised")
    if "." in function or reaches(function):
        return fact("operator.not_from_dump")
    # Dumps leave the namespace away.
    is_other = "other_in_linalg" in operator.traits and function == operator.name
    if kind == "Torch" and is_other:
        names = f"torch.{function}", f"torch.linalg.{function}"
        return fact("operator.two_meanings", one=names[0], other=names[1])
    found = getattr(_PLACES[kind], function, None)
    if found is None and kind == "Torch":
        space, _, rest = function.partition("_")
        place = {"fft": torch.fft, "special": torch.special}.get(space)
        found = getattr(torch.linalg, function, None) or getattr(place, rest, None)
    if isinstance(found, GetSetDescriptorType) and operator.kind in _MOVES:
        return found.__get__  # an attribute that is another view of the tensor, such as x.T
    if found is None or not callable(found) or isinstance(found, type):
        return fact("operator.not_in_torch", name=f"{kind}.{function}")
    if found not in _functions_of_tensors() and not _is_known(kind, function):
        return fact("operator.no_function")
    if not is_row(operator.name) and known_row(function) is None:
        return fact("operator.not_allowed", name=f"{kind}.{function}")
    return found  # type: ignore[no-any-return]


def _draws(operator: Operator, record: dict[str, Any]) -> bool:
    """Whether a call drew random numbers, by its arguments."""
    args, kwargs = (record.get(part) for part in ("input_args", "input_kwargs"))
    given = dict(enumerate(args)) if isinstance(args, list) else {}
    given |= kwargs if isinstance(kwargs, dict) else {}
    plain: dict[str, str] = {}
    by_type: dict[Any, list[str]] = {"float": [], "bool": []}
    for name, leaf in given.items():
        is_value = isinstance(leaf, dict) and "value" in leaf
        plain[str(name)] = str(leaf["value"]) if is_value else str(leaf)
        if is_value and leaf.get("type") in ("float", "bool"):
            by_type[leaf["type"]].append(plain[str(name)])
    return draws(operator, plain, by_type["float"], by_type["bool"])


def _aten(function: str) -> Callable[..., Any] | Fact:
    try:
        operator = of_torch.find_operator(f"torch.ops.aten.{function}")
    except ValueError:
        return fact("operator.no_operator", name=f"aten.{function}")
    refused = why_not_called(operator)
    if refused is not None:
        return refused
    if of_torch.is_random(operator):
        return fact("operator.draws")
    if of_torch.is_uninitialised(operator):
        return fact("operator.uninitialised")
    return operator


@lru_cache(maxsize=1)
def _functions_of_tensors() -> frozenset[Any]:
    from torch.overrides import get_overridable_functions

    found: set[Any] = set()
    for functions in get_overridable_functions().values():
        found.update(functions)
    for name in dir(torch.Tensor):  # methods written in C are other objects at each look
        row = operator_of(f"Tensor.{name}")
        if name.startswith("__") and is_row(row.name) and row.traits.isdisjoint(_NO_FUNCTION):
            method = getattr(torch.Tensor, name)
            if callable(method):
                found.add(method)
    return frozenset(found)


_NO_FUNCTION = {"describes", "reaches"}  # what says something of a tensor, or does more
# Kinds of functions of tensors, or makers of them, that torch does not list as such.
_UNLISTED = {Kind.MAKE, Kind.POINTWISE, Kind.SHAPE, Kind.POOL}


def _is_known(kind: str, function: str) -> bool:
    row = operator_of(f"{kind}.{function}")
    if is_row(row.name) and row.kind in _UNLISTED:
        return True
    # torch.exp_ is torch.exp, written in place.
    other = getattr(torch, function.removesuffix("_"), None)
    is_in_place = kind == "Torch" and function.endswith("_") and not function.startswith("_")
    return is_in_place and other is not None and other in _functions_of_tensors()
