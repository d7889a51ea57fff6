"""Calls of MindSpore as torch makes them: ``mint`` has torch's names, arguments and meaning.

So torch on the CPU, in float64, is the measure of what MindSpore computed. Of functions of ``ops``
and of Primitives those are taken whose arguments mean the same; a Primitive's settings are not in
a dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.nn import functional

from msprobe_builder.operators.table import operator_of

_PLACES = {"Mint": "Torch", "MintFunctional": "Functional", "Tensor": "Tensor"}
_RENAMED = ("Dense", "RealDiv")  # with the arguments of linear and div
_OTHERS = {"Primitive": "Primitive", "Functional": "Ops"}
_DTYPES = {"BFloat16": "bfloat16", "Bool": "bool"}


def is_of_mindspore(record: Any) -> bool:
    """Whether a record holds tensors of MindSpore."""
    return next(_tensors(record), None) is not None


def name_in_torch(name: str) -> str:
    """What torch calls the call ``Mint.add.0``; the name itself where it has no other."""
    kind, _, rest = name.partition(".")
    function, _, number = rest.rpartition(".")
    if kind in _OTHERS:
        leaf = function.rpartition(".")[2]
        operator = operator_of(f"{kind}.{leaf}")
        is_named_so = leaf.lower() == operator.name.replace("_", "") or leaf in _RENAMED
        trait = "same_primitive" if kind == "Primitive" else "same_in_mindspore"
        is_same = trait in operator.traits and (is_named_so or function == operator.name)
        # What else there is may take other arguments than torch's.
        found = _in_torch(operator.name) if is_same else f"{_OTHERS[kind]}.{function}"
    else:
        found = f"{_PLACES.get(kind, kind)}.{function}"
    return f"{found}.{number}"


def _in_torch(name: str) -> str:
    return f"{'Functional' if hasattr(functional, name) else 'Torch'}.{name}"


def record_in_torch(
    record: dict[str, Any], backward: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Both records of a call with the types of torch, and which tensors take a gradient."""
    forward: dict[str, Any] = _translated(record)
    if backward is None:
        return forward, None
    back: dict[str, Any] = _translated(backward)
    sent = back.get("output")
    gradients = iter(sent if isinstance(sent, list) else [])
    for leaf in _tensors([forward.get("input_args"), forward.get("input_kwargs")], "torch."):
        leaf["requires_grad"] = next(gradients, None) is not None
    # MindSpore's records are by argument.
    return forward, {**back, "output_gradients": back.get("input"), "input_gradients": sent}


def _tensors(value: Any, library: str = "mindspore.") -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if str(value.get("type")).startswith(f"{library}Tensor") and "shape" in value:
            yield value
        else:
            for part in value.values():
                yield from _tensors(part, library)
    elif isinstance(value, list):
        for part in value:
            yield from _tensors(part, library)


def _translated(value: Any) -> Any:
    if isinstance(value, list):
        return [_translated(part) for part in value]
    if not isinstance(value, dict):
        return value
    kind = str(value.get("type"))
    if kind.startswith("mindspore.Tensor") and "shape" in value:
        return {**value, "type": "torch.Tensor", "dtype": _dtype(value.get("dtype"))}
    if kind.startswith("mindspore.") and "dtype" in kind.lower() and "value" in value:
        return {"type": "torch.dtype", "value": _dtype(value["value"])}
    return {key: _translated(part) for key, part in value.items()}


def _dtype(name: Any) -> str:
    """``Float32`` as ``torch.float32``."""
    text = str(name).rpartition(".")[2]
    return f"torch.{_DTYPES.get(text, text.lower())}"
