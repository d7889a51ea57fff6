"""Calls of MindSpore as torch makes them: ``mint`` has torch's names, arguments and meaning.

So torch on the CPU, in float64, is the measure of what MindSpore computed. Of functions of ``ops``
and of Primitives those are taken whose arguments mean the same; a Primitive's settings are not in
a dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_PLACES = {"Mint": "Torch", "MintFunctional": "Functional", "Tensor": "Tensor"}
# Of ops, in torch.nn.functional and in torch.
_FUNCTIONAL = frozenset(
    "elu gelu hardsigmoid hardswish layer_norm leaky_relu linear log_softmax logsigmoid mish relu"
    " relu6 selu sigmoid silu softmax softplus softsign tanh tanhshrink".split()
)
_PLAIN = frozenset(
    "abs acos add asin atan bmm ceil cos cosh div erf erfc exp expm1 floor log log1p log2 matmul"
    " maximum minimum mul neg pow reciprocal round rsqrt sign sin sinh sqrt square sub tan".split()
)
_PRIMITIVES = {
    "Abs": "Torch.abs",
    "Add": "Torch.add",
    "Cos": "Torch.cos",
    "Dense": "Functional.linear",
    "Div": "Torch.div",
    "Erf": "Torch.erf",
    "Exp": "Torch.exp",
    "Log": "Torch.log",
    "Maximum": "Torch.maximum",
    "Minimum": "Torch.minimum",
    "Mul": "Torch.mul",
    "Neg": "Torch.neg",
    "Pow": "Torch.pow",
    "ReLU": "Functional.relu",
    "RealDiv": "Torch.div",
    "Rsqrt": "Torch.rsqrt",
    "Sigmoid": "Torch.sigmoid",
    "SiLU": "Functional.silu",
    "Sin": "Torch.sin",
    "Sqrt": "Torch.sqrt",
    "Square": "Torch.square",
    "Sub": "Torch.sub",
    "Tanh": "Torch.tanh",
}
_DTYPES = {"BFloat16": "bfloat16", "Bool": "bool"}


def is_of_mindspore(record: Any) -> bool:
    """Whether a record holds tensors of MindSpore."""
    return next(_tensors(record), None) is not None


def name_in_torch(name: str) -> str:
    """What torch calls the call ``Mint.add.0``; the name itself where it has no other."""
    kind, _, rest = name.partition(".")
    function, _, number = rest.rpartition(".")
    if kind == "Primitive":
        found = _PRIMITIVES.get(function.rpartition(".")[2], f"{kind}.{function}")
    elif kind == "Functional" and function in _PLAIN:
        found = f"Torch.{function}"
    elif kind == "Functional" and function not in _FUNCTIONAL:
        found = f"Ops.{function}"  # may take other arguments than torch's
    else:
        found = f"{_PLACES.get(kind, kind)}.{function}"
    return f"{found}.{number}"


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
