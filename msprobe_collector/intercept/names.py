"""What an intercepted torch function is called in a dump, and how it is treated."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import names_with, operator_of, rows


class Action(Enum):
    """How the interception treats a function."""

    RECORD = 0
    IGNORE = 1  # reads no values: shapes, flags, queries
    EXPOSE = 2  # hands out memory that may change without the version counter noticing
    ENTER = 3  # what it calls is seen instead of it
    HOOK = 4  # may change the gradient of a tensor


@dataclass(frozen=True)
class Api:
    """One function: ``label`` is ``Prefix.name`` of the grammar of dump names."""

    label: str
    action: Action
    none_defaults: frozenset[str] = frozenset()  # keywords a Python function adds by itself
    exposes: bool = False  # others may write to its result


_IGNORED_NAMESPACES = frozenset({"profiler", "prim", "inductor"})
_METHOD_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


@functools.cache
def describe_function(function: Any) -> Api:
    """The name and treatment of a function that a torch function mode hands us."""
    if isinstance(function, types.MethodWrapperType):
        return _describe_property(function)
    if function in ENTERED:
        return Api("Tensor.backward", Action.ENTER)
    label = _labels().get(function)
    if label is None:
        label = _label_outside_the_namespaces(function)
    name = label.partition(".")[2]
    prefix = label.partition(".")[0]
    action = Action.RECORD
    if name in names_with("hooks"):
        action = Action.HOOK
    elif name in names_with("describes") or not prefix:
        action = Action.IGNORE
    elif name in names_with("exposes"):
        action = Action.EXPOSE
    return Api(label, action, _none_defaults(function), name in names_with("exposes_result"))


def _describe_property(function: types.MethodWrapperType) -> Api:
    name = getattr(function.__self__, "__name__", "")
    # Properties whose value is a tensor of the same numbers; all others only describe.
    computes = operator_of(f"Tensor.{name}").kind in (Kind.TRANSPOSE, Kind.SLICE)
    if function.__name__ == "__get__" and computes:
        return Api(f"Tensor.{name}", Action.RECORD)
    if name == "data":
        return Api("Tensor.data", Action.EXPOSE)
    return Api(f"Tensor.{name}", Action.IGNORE)


def _label_outside_the_namespaces(function: Any) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    packet = getattr(function, "_overloadpacket", function)
    qualified = getattr(packet, "_qualified_op_name", None)
    if isinstance(qualified, str):
        namespace, _, operator = qualified.partition("::")
        if namespace in _IGNORED_NAMESPACES:
            return "." + operator
        if namespace in ("_c10d_functional", "_c10d_functional_autograd"):
            return f"Distributed.{operator}"
        known = {"aten": "Aten", "npu": "NPU", "torch_npu": "NPU", "mindspeed": "MindSpeed"}
        if namespace in known:
            return f"{known[namespace]}.{operator}"
        return f"Torch.{namespace}_{operator}"
    module = getattr(function, "__module__", None) or ""
    for start, prefix in (
        ("torch_npu", "NPU"),
        ("mindspeed", "MindSpeed"),
        ("torch._C._nn", "Functional"),
        ("torch.nn.functional", "Functional"),
        ("torch._tensor", "Tensor"),
    ):
        if module.startswith(start):
            return f"{prefix}.{name}"
    return f"Torch.{name}"


def _of_recurrent_layers() -> list[str]:
    return [row.name for row in rows() if not row.traits.isdisjoint({"recurrent", "cell"})]


@functools.cache
def _labels() -> dict[Any, str]:
    """Every public function of torch by identity; the first namespace that has it names it."""
    labels: dict[Any, str] = {}
    # ``x /= 2`` reaches a function whose name dates from Python 2.
    labels[torch.Tensor.__itruediv__] = "Tensor.__itruediv__"
    labels[torch.mm] = "Torch.mm"  # it has older names for sparse matrices, which come first
    for name in _of_recurrent_layers():
        labels[getattr(torch._C._VariableFunctions, name)] = f"VF.{name}"
    for name, function in vars(F).items():
        if isinstance(function, _METHOD_TYPES) and not name.startswith("_"):
            labels.setdefault(function, f"Functional.{name}")
    for name in dir(torch.Tensor):
        function = getattr(torch.Tensor, name, None)
        if isinstance(function, _METHOD_TYPES):
            labels.setdefault(function, f"Tensor.{name}")
    for name, function in vars(torch).items():
        if isinstance(function, _METHOD_TYPES):
            labels.setdefault(function, f"Torch.{name}")
    for name, function in vars(torch.linalg).items():  # established without their namespace
        if isinstance(function, _METHOD_TYPES) and not name.startswith("_"):
            labels.setdefault(function, f"Torch.{name}")
    return labels


# The engine, because hooks and recomputation run inside; operators that are two calls.
ENTERED = frozenset(
    {
        torch.Tensor.backward,
        torch.autograd.backward,
        torch.autograd.grad,
        torch.Tensor.__rtruediv__,
        torch.Tensor.__rfloordiv__,
        torch.Tensor.__rmatmul__,
    }
)


def _none_defaults(function: Any) -> frozenset[str]:
    """Keywords whose default is None: torch passes them on although nobody gave them."""
    if not isinstance(function, types.FunctionType):
        return frozenset()
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    if len(values) > len(names):  # other code was put into it, which takes any arguments
        return frozenset()
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    return frozenset(key for key, value in defaults.items() if value is None)


def changes_arguments(label: str, kwargs: dict[str, Any]) -> bool:
    """Whether a call may overwrite its arguments."""
    name = label.rpartition(".")[2]
    if name.endswith("__"):
        return name.startswith("__i") or name == "__setitem__"
    return name.endswith("_") or "out" in kwargs or bool(kwargs.get("inplace"))
