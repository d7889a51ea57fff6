"""What a function of MindSpore is called in a dump.

One function often stands in several namespaces. What a caller wrote decides: ``mint.add`` or
``ops.add``; where that cannot be told, the first namespace that has it.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import mindspore
from mindspore import mint, ops

# They read no values, or call what they are given: its calls are seen instead.
_SILENT = frozenset(
    """
    shape shape_ rank size dtype dyn_shape numel is_tensor is_floating_point is_complex
    get_default_dtype set_default_dtype manual_seed seed initial_seed get_rng_state set_rng_state
    grad value_and_grad get_grad vmap jvp vjp jacfwd jacrev derivative jet fallback
    partial print_ hook_call custom_info_register reset_parameters typeof isinstance_ is_nan_inf
    while_loop cond scan fori_loop WhileLoop Scan ForiLoop get_cache_prim depend switch recompute
    finfo iinfo
    """.split()
)
_SILENT_METHODS = frozenset(
    """
    asnumpy numpy tolist item_ data_ptr register_hook remove_hook requires_grad_ stride dim
    ndimension is_contiguous storage_offset element_size storage untyped_storage set_const_arg
    value size numel is_floating_point is_signed is_complex get_bytes init_data init_check
    flush_from_cache check_name convert_bytes_to_tensor persistent_data_from_cache
    getitem_index_info setitem_index_info has_init set_cast_dtype assign_value_cpp assign_value
    slice_num_of_persistent_data_ slice_shape_of_persistent_data_ is_persistent_data set_dtype_
    wait_pipeline offload to_device move_to pin_memory is_pinned set_data init_flag from_numpy
    data_sync ndim hooks index_of_parent_ is_init stub_sync
    __init__ __new__ __len__ __repr__ __str__ __hash__ __format__ __dir__ __reduce__ __reduce_ex__
    __getstate__ __setstate__ __deepcopy__ __copy__ __bool__ __int__ __float__ __index__ __iter__
    __array__ __array_priority__ __class__ __delattr__ __setattr__ __getattribute__ __getattr__
    __sizeof__ __init_subclass__ __subclasshook__ __class_getitem__ __dlpack__ __dlpack_device__
    __contains__ __complex__ __round__ __ceil__ __floor__ __trunc__ __cuda_array_interface__
    """.split()
)
SILENT_PRIMITIVES = frozenset(
    """
    Shape TensorShape DynamicShape Rank DType Size IsInstance Depend UpdateState Load
    InsertGradientOf HookBackward CellBackwardHook Print PyFunc ProxyOp Generator typeof
    """.split()
)


def namespaces() -> list[tuple[str, Any]]:
    """Where callers find functions, with the prefix of their names in a dump."""
    found = [
        ("MintFunctional", mint.nn.functional),
        ("Mint", mint),
        ("Functional", ops),
        ("Mint", getattr(mint, "linalg", None)),
        ("Mint", getattr(mint, "special", None)),
        ("Distributed", getattr(mint, "distributed", None)),
        ("Distributed", getattr(mindspore.communication, "comm_func", None)),
    ]
    return [(prefix, module) for prefix, module in found if module is not None]


def public_functions() -> dict[types.FunctionType, list[tuple[Any, str]]]:
    """Each function with the modules that have it and its name in a dump."""
    found: dict[types.FunctionType, list[tuple[Any, str]]] = {}
    for prefix, module in namespaces():
        for name in sorted(getattr(module, "__all__", ())):
            function = getattr(module, name, None)
            if isinstance(function, types.FunctionType) and name not in _SILENT:
                labels = found.setdefault(function, [])
                label = f"{prefix}.{name}"
                if name == function.__name__:
                    labels.insert(0, (module, label))
                else:
                    labels.append((module, label))
    return found


def tensor_methods() -> Iterator[tuple[str, Any]]:
    """The methods of tensors that compute."""
    for name in dir(mindspore.Tensor):
        if name in _SILENT_METHODS or (name.startswith("_") and not name.endswith("__")):
            continue
        method = getattr(mindspore.Tensor, name, None)
        if isinstance(method, (types.FunctionType, types.MethodDescriptorType)) or (
            type(method).__name__ in ("instancemethod", "wrapper_descriptor")
            and getattr(object, name, None) is None
        ):
            yield name, method


_written: dict[tuple[int, int], tuple[CodeType, Any]] = {}


def label_of(labels: list[tuple[Any, str]], frame: FrameType) -> str:
    """The name under which the code of ``frame`` calls a function."""
    if len(labels) == 1:
        return labels[0][1]
    module = _module_written(frame)
    for owner, label in labels:
        if owner is module:
            return label
    return labels[0][1]


def _module_written(frame: FrameType) -> Any:
    """The module before the dot of the call at which ``frame`` stands, None if there is none."""
    key = (id(frame.f_code), frame.f_lasti)
    found = _written.get(key)
    if found is None:
        found = _written[key] = (frame.f_code, _path_written(frame))
    path = found[1]
    if not path:
        return None
    value = frame.f_globals.get(path[0], frame.f_locals.get(path[0]))
    for name in path[1:]:
        value = getattr(value, name, None)
    return value


def _path_written(frame: FrameType) -> tuple[str, ...]:
    """``("mint", "nn", "functional")`` of ``mint.nn.functional.relu(x)``.

    What is called stands where the call begins; Python 3.10 does not say where that is.
    """
    if sys.version_info < (3, 11):
        return ()
    # The frame stands at the call or in the cache behind it; caches have positions, too.
    [call] = islice(frame.f_code.co_positions(), frame.f_lasti // 2, frame.f_lasti // 2 + 1)
    callee: tuple[str, ...] = ()
    for instruction in dis.get_instructions(frame.f_code):
        place = instruction.positions
        if instruction.offset >= frame.f_lasti or place is None:
            break
        if (place.lineno, place.col_offset) != (call[0], call[2]):
            continue
        if instruction.opname.startswith(("LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_NAME")):
            callee = (str(instruction.argval),)
        elif callee and instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            callee = (*callee, str(instruction.argval))
    return callee[:-1]
