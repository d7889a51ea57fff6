"""A call in a file: what it was given, what came out, and the random state before it.

The file is a plain ``torch.save`` of dictionaries, lists, numbers, texts and tensors, so that it
is read with ``weights_only=True`` and can run no code.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from msprobe_builder.base.limits import DEEPEST_CALL, MOST_OPERANDS
from msprobe_builder.base.publish import published
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.saved import load_saved
from msprobe_operators.call.allowed import why_not_called
from msprobe_operators.call.arguments import map_tensors
from msprobe_operators.call.operator import find_operator, operator_name

_FORMAT = "msprobe-operators call 1"
_PLAIN = (int, float, complex, str, bool, type(None), torch.dtype)
# Kept as texts, as weights_only refuses their classes.
_ENUMS = {
    str(value): value
    for value in (
        *(torch.strided, torch.sparse_coo, torch.contiguous_format, torch.preserve_format),
        *(torch.channels_last, torch.channels_last_3d),
    )
}


class SavedCallError(Exception):
    """Why a file of a call cannot be used, in one sentence with file and remedy."""


@dataclass(frozen=True)
class SavedCall:
    """One call of an operator, on the CPU."""

    operator: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    place: str
    random_state: Tensor | None


def save_call(
    path: Path,
    operator: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    place: str = "",
    random_state: Tensor | None = None,
    output: Any = None,
) -> None:
    """Write a call; the file is there whole or not at all. Raises OSError."""
    content = {
        "format": _FORMAT,
        "operator": operator_name(operator),
        "place": place,
        "args": _packed(list(args)),
        "kwargs": _packed(kwargs),
        "output": _packed(output),
        "random_state": random_state,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with published(path, overwrite=True) as temporary, temporary.open("xb") as file:
        torch.save(content, file)


def load_call(path: Path, operator: OpOverload | None = None) -> SavedCall:
    """Read a call; SavedCallError when the file is none or asks for more than data."""
    remedy = "save the call again with dump_error_data."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a pickle that it refuses next
            content = load_saved(path)
    except FileError as error:
        if error.code == "missing":
            raise SavedCallError(f"{path} does not exist; name a file of a saved call.") from error
        raise SavedCallError(f"{error.message} It is no saved call; {remedy}") from error
    keys = {"format", "operator", "place", "args", "kwargs", "output", "random_state"}
    if not isinstance(content, dict) or content.get("format") != _FORMAT or content.keys() != keys:
        raise SavedCallError(f"{path} holds no saved call; {remedy}")
    try:
        unpacked = _unpacked([content["args"], content["kwargs"], content["output"]], _Budget())
    except ValueError as error:
        raise SavedCallError(f"{path} {error}; {remedy}") from None
    args, kwargs, output = unpacked
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise SavedCallError(f"{path} holds no arguments of a call; {remedy}")
    if operator is None:
        try:
            operator = find_operator(str(content["operator"]))
        except ValueError as error:
            raise SavedCallError(f"{path}: {error}") from error
        refused = why_not_called(operator)
        if refused is not None:  # who gives an operator in Python may call what he likes
            raise SavedCallError(
                f"{path}: {tell(refused, ENGLISH)}; compare_for_single_op(file, operator) in Python"
                " calls it."
            )
    state = content["random_state"]
    return SavedCall(
        operator,
        tuple(args),
        kwargs,
        output,
        str(content["place"]),
        state if isinstance(state, Tensor) else None,
    )


def file_name(operator: OpOverload, what: str, rank: int | None) -> str:
    """``torch.ops.aten.addmm_inputs.pkl``, with the rank when there is one."""
    name = re.sub(r"[^\w.]", "_", operator_name(operator))
    return f"{name}_{what}" + ("" if rank is None else f"_rank{rank}") + ".pkl"


def _packed(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        items = [_packed(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": {str(key): _packed(item) for key, item in value.items()}}
    if isinstance(value, Tensor):
        return map_tensors(value, lambda tensor: tensor.detach().cpu().clone())
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if str(value) in _ENUMS:
        return {"enum": str(value)}
    return {"text": repr(value)}


@dataclass
class _Budget:
    """How many values may still be unpacked: one may be named many times, or hold itself."""

    left: int = MOST_OPERANDS

    def spend(self, depth: int) -> None:
        """Take one value; ValueError when there are too many, or too deep ones."""
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"holds more than {MOST_OPERANDS:,} values")
        if depth > DEEPEST_CALL:
            raise ValueError(f"holds more than {DEEPEST_CALL} lists inside each other")


def _unpacked(value: Any, budget: _Budget, depth: int = 0) -> Any:
    """What :func:`_packed` was given; ValueError for anything else."""
    budget.spend(depth)
    if isinstance(value, list):
        return [_unpacked(item, budget, depth + 1) for item in value]
    if isinstance(value, dict):
        [(kind, item)] = value.items() if len(value) == 1 else [("", None)]
        if kind == "tuple" and isinstance(item, list):
            return tuple(_unpacked(part, budget, depth + 1) for part in item)
        if kind == "dict" and isinstance(item, dict) and all(isinstance(one, str) for one in item):
            return {key: _unpacked(part, budget, depth + 1) for key, part in item.items()}
        if kind == "device":
            return torch.device("cpu")
        if kind == "enum" and isinstance(item, str):
            return _ENUMS.get(item)
        if kind == "text":
            return None
        raise ValueError("holds a value of a kind that no call is saved with")
    if type(value) in (Tensor, torch.nn.Parameter) or type(value) in _PLAIN:
        return value
    raise ValueError("holds a value of a kind that no call is saved with")
