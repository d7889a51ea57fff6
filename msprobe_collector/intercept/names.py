"""What an intercepted torch function is called in a dump, and how it is treated."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812


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


_QUERIES = frozenset(
    """
    size dim stride numel nelement element_size storage_offset ndimension get_device sparse_dim
    dense_dim is_contiguous is_floating_point is_complex is_signed is_conj is_neg is_inference
    is_pinned is_shared is_coalesced is_set_to is_same_size is_distributed has_names names
    __len__ __hash__ __repr__ __str__ __format__ __dir__ __reduce__ __reduce_ex__ __setstate__
    __deepcopy__ __dlpack_device__ __array_priority__ __cuda_array_interface__
    register_post_accumulate_grad_hook requires_grad_ retain_grad record_stream
    share_memory_ pin_memory result_type can_cast promote_types broadcast_shapes is_tensor
    _set_grad_enabled _is_view _version _has_compatible_shallow_copy_type qscheme
    get_default_dtype is_autocast_enabled module_load _make_subclass
    _make_wrapper_subclass _is_zerotensor _is_functional_tensor refine_names align_as
    _wrap_tensor_autograd
    """.split()
)
_HOOKS = frozenset({"register_hook"})
_EXPOSING = frozenset(
    """
    data_ptr numpy untyped_storage storage _typed_storage __array__ __dlpack__ set_
    const_data_ptr mutable_data_ptr
    """.split()
)
# What they return is the memory of an array, or is there to be filled by somebody.
_EXPOSING_RESULTS = frozenset(
    """
    as_tensor asarray empty empty_like empty_strided new_empty new_empty_strided
    zeros zeros_like new_zeros
    """.split()
)
# Properties whose value is a tensor of the same numbers; all others only describe.
_COMPUTING_PROPERTIES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
_VF_FUNCTIONS = frozenset(
    """
    lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    """.split()
)
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
    if name in _HOOKS:
        action = Action.HOOK
    elif name in _QUERIES or not prefix:
        action = Action.IGNORE
    elif name in _EXPOSING:
        action = Action.EXPOSE
    return Api(label, action, _none_defaults(function), name in _EXPOSING_RESULTS)


def _describe_property(function: types.MethodWrapperType) -> Api:
    name = getattr(function.__self__, "__name__", "")
    if function.__name__ == "__get__" and name in _COMPUTING_PROPERTIES:
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


@functools.cache
def _labels() -> dict[Any, str]:
    """Every public function of torch by identity; the first namespace that has it names it."""
    labels: dict[Any, str] = {}
    # ``x /= 2`` reaches a function whose name dates from Python 2.
    labels[torch.Tensor.__itruediv__] = "Tensor.__itruediv__"
    labels[torch.mm] = "Torch.mm"  # it has older names for sparse matrices, which come first
    for name in _VF_FUNCTIONS:
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
