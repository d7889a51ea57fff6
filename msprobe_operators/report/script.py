"""A standalone Python script of one call that shows the difference with nothing but torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from msprobe_operators.call.operator import operator_name
from msprobe_operators.call.saved import SavedCall

# Tensors up to this many elements are written out; larger ones are read from the file.
_MOST_ELEMENTS = 4096

_SCRIPT = '''"""{name}: one call, computed twice. Needs nothing but torch{libraries}."""

import sys

import torch

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "{device}"
torch.manual_seed(0)


def operands(device, wide):
    """The operands of the call; with wide every floating one in float64."""
    def place(tensor):
        tensor = tensor.to(device, copy=True)
        if wide and tensor.is_floating_point():
            tensor = tensor.double()
        return tensor.requires_grad_(tensor.is_floating_point())

{data}
    args = {args}
    kwargs = {kwargs}
    return tensors, args, kwargs


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    return []


def run(device, wide):
    tensors, args, kwargs = operands(device, wide)
    leaves = [tensor for tensor in tensors if tensor.requires_grad]
    {run}
    results = [tensor for tensor in flat(result) if tensor.is_floating_point()]
    gradients = []
    if any(tensor.requires_grad for tensor in results):
        loss = sum(tensor.sum() for tensor in results if tensor.requires_grad)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    named = [("output", number, tensor) for number, tensor in enumerate(results)]
    named += [("gradient", n, t) for n, t in enumerate(gradients) if t is not None]
    return named


def worst(one, other):
    difference = (one.detach().cpu().double() - other.detach().cpu().double()).abs()
    scale = other.detach().double().abs().max().clamp_min(1e-300).cpu()
    return float(difference.max()), float(difference.max() / scale)


for (kind, number, one), (_, _, other) in zip(run(DEVICE, False), run("cpu", True)):
    if one.numel():
        absolute, relative = worst(one, other)
        print(f"{{kind}} {{number}}: largest difference to float64 on the CPU {{absolute:.3e}}, "
              f"{{relative:.3e}} of the largest element ({{one.dtype}})")
'''


def script(call: SavedCall, file: str, device: str = "cpu") -> str:
    """Source of a script that runs the call forward and backward on a device and in float64.

    Small operands are written into it; larger ones are read from ``file``, the saved call.
    """
    tensors: list[Tensor] = []
    args = source_text(list(call.args), tensors)
    named = (f"{key!r}: {source_text(one, tensors)}" for key, one in call.kwargs.items())
    kwargs = "{" + ", ".join(named) + "}"
    is_small = all(tensor.numel() <= _MOST_ELEMENTS for tensor in tensors)
    if is_small:
        rows = [f"        place({literal(tensor)})," for tensor in tensors]
        data = "\n".join(["    tensors = [", *rows, "    ]"])
    else:
        data = _LOAD.format(file=file)
    name = operator_name(call.operator)
    writes = any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in call.operator._schema.arguments
    )
    overload = call.operator._overloadname
    path = name if overload != "default" else f"{name}.default"
    body = f"result = {path}(*args, **kwargs)"
    if writes:  # leaves that need gradients must not be written to
        body = f"with torch.no_grad():\n        {body}"
    namespace = call.operator.namespace
    library = "" if namespace == "aten" else f" and the library of torch.ops.{namespace}"
    return _SCRIPT.format(
        name=name, libraries=library, device=device, data=data, args=args, kwargs=kwargs, run=body
    )


_LOAD = """    saved = torch.load({file!r}, map_location="cpu", weights_only=True)

    def inside(value):
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        return [t for item in value for t in inside(item)] if isinstance(value, list) else []

    tensors = [place(t) for t in inside([saved["args"], saved["kwargs"]])]"""


def source_text(value: Any, tensors: list[Tensor]) -> str:
    """An argument as Python source; tensors become places in the list ``tensors``."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return f"tensors[{len(tensors) - 1}]"
    if isinstance(value, (list, tuple)):
        items = ", ".join(source_text(item, tensors) for item in value)
        if isinstance(value, tuple):
            return f"({items},)" if value else "()"
        return f"[{items}]"
    if isinstance(value, torch.device):
        return "torch.device(device)"
    if isinstance(value, float):
        return f"float({str(value)!r})"
    if isinstance(value, (int, bool, str, complex, type(None))):
        return repr(value)
    return str(value)  # torch.float32, torch.strided: sources of themselves


def literal(tensor: Tensor) -> str:
    """A small tensor written out, bit for bit."""
    shape, dtype = list(tensor.shape), tensor.dtype
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        values = tensor.detach().to(wide).reshape(-1).tolist()
        text = ", ".join(f"float('{v}')" if v != v or v in _INFINITE else repr(v) for v in values)
        return f"torch.tensor([{text}], dtype={wide}).to({dtype}).reshape({shape})"
    values = tensor.reshape(-1).tolist()
    return f"torch.tensor({values!r}, dtype={dtype}).reshape({shape})"


_INFINITE = (float("inf"), float("-inf"))
