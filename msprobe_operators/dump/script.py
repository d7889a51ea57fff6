"""A script of one call of a dump: forward and backward on any device, against float64."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import Any
from zlib import compress

import torch

from msprobe_builder.facts.fact import Fact, fact
from msprobe_operators.dump.calls import RecordedCall, function_of, tensor_leaves
from msprobe_operators.dump.operands import CannotRebuildError, Source, operands, rebuild
from msprobe_operators.report.script import literal, source_text

_PLAIN = re.compile(r"\w+(\.\w+)+", re.ASCII)
_MOST_WRITTEN = 64  # elements of a tensor that is written out for people to read
_MOST_PACKED = 1 << 23  # bytes of one that is packed into the script
_HALF_PRECISION = ("torch.bfloat16", "torch.float16")
_MODULES = (
    ("torch.nn.functional", torch.nn.functional),
    ("torch.Tensor", torch.Tensor),
    ("torch", torch),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
    ("torch._VF", torch._VF),
)

_SCRIPT = '''"""{name} of a dump: forward and backward on one device, and in float64 on the CPU.

Run it as python FILE [DEVICE], such as cuda:0 or npu:0. It needs nothing but torch{more}.
"""

import base64
import math
import sys
import zlib

import torch

DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else "{device}")
AUTOCAST = {autocast}  # the type of the results where the operands are float32
if DEVICE.type == "npu":
    import torch_npu  # noqa: F401


def made(shape, dtype, low, high, seed):
    """Numbers of a recorded range, both ends among them."""
    source = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=source) < 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        least = int(low) if high < 0 else max(int(low), 0)
        drawn = torch.randint(least, max(int(high) + 1, least + 1), shape, generator=source)
        if low < 0 and drawn.numel() > 1:
            drawn.reshape(-1)[0] = int(low)
        return drawn.to(dtype)
    ends = [end if math.isfinite(end) else default for end, default in ((low, -1.0), (high, 1.0))]
    drawn = torch.rand(shape, generator=source, dtype=torch.float64)
    drawn = ends[0] + (ends[1] - ends[0]) * drawn
    flat = drawn.reshape(-1)
    for place, end in enumerate((low, high)):
        if flat.numel() > place:
            flat[place] = end
    return drawn.to(dtype)


def stored(path, shape, dtype):
    """A tensor of the dump."""
    if path.endswith(".npy"):
        import numpy

        return torch.from_numpy(numpy.load(path)).to(dtype).reshape(shape)
    return torch.load(path, map_location="cpu", weights_only=True).detach().reshape(shape)


def packed(text, shape, dtype):
    """A tensor of the dump, bit for bit."""
    content = bytearray(zlib.decompress(base64.b64decode(text)))
    return torch.frombuffer(content, dtype=dtype).reshape(shape)


def operands():
    """Each tensor that the call was given, and whether it asks for a gradient."""
    return [
{operands}
    ]


def gradients():
    """What the backward pass brought to the results."""
    return [
{gradients}
    ]


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    return []


def run(device, wide):
    leaves, tensors = [], []
    for tensor, asks in operands():
        if wide and tensor.is_floating_point():
            tensor = tensor.double()
        tensor = tensor.to(device, copy=True)
        if asks:
            leaves.append(tensor.requires_grad_(True))
            tensor = tensor.clone()  # what is written to may be no leaf
        tensors.append(tensor)
    args = {args}
    kwargs = {kwargs}
    torch.manual_seed(0)
    cast = AUTOCAST if AUTOCAST and not wide else torch.bfloat16
    with torch.autocast(device.type, cast, enabled=bool(AUTOCAST) and not wide):
        result = {function}(*args, **kwargs)
    results = [one for one in flat(result) if one.is_floating_point()]
    named = [("output", number, one) for number, one in enumerate(results)]
    ends = [one for one in results if one.requires_grad]
    if not ends or not leaves:
        return named
    given = gradients()
    if [list(one.shape) for one in given] != [list(one.shape) for one in ends]:
        given = [torch.ones(one.shape) for one in ends]
    given = [one.to(end.device, end.dtype) for one, end in zip(given, ends)]
    found = torch.autograd.grad(ends, leaves, given, allow_unused=True)
    return named + [("gradient", n, one) for n, one in enumerate(found) if one is not None]


exact = run(torch.device("cpu"), True)
for (which, number, one), (_, _, other) in zip(run(DEVICE, False), exact):
    if not one.numel():
        continue
    difference = (one.detach().cpu().double() - other.detach().double()).abs()
    largest = float(other.detach().abs().max())
    worst = float(difference.max())
    unit = max(torch.finfo(kind).eps for kind in (one.dtype, AUTOCAST or one.dtype)) * largest
    print(
        f"{{which}} {{number}} ({{one.dtype}}): differs from float64 by at most {{worst:.3e}}, "
        f"{{worst / unit if unit else 0:.3g}} units in the last place of its largest element "
        f"{{largest:.3e}}; norm {{float(one.detach().double().norm()):.9g}}"
    )
{recorded}
'''


def dump_script(call: RecordedCall, source: Source, device: str = "cpu") -> str | Fact:
    """The source of the script, or why there is none.

    Small tensors are written into it. Larger ones are read from the dump's files where it has them
    and made of the recorded range where not.
    """
    if not _PLAIN.fullmatch(call.name):  # it stands in the script
        return fact("operator.no_call")
    function = function_of(call)
    if isinstance(function, Fact):
        return function
    path = _path(call.in_torch, function)
    if path is None:
        return fact("operator.not_from_dump")
    try:
        given = operands(call.in_torch + ".forward", call.record, source)
    except CannotRebuildError as why:
        return why.reason
    held: list[torch.Tensor] = []
    args = source_text(list(given.args), held)
    kwargs = ", ".join(f"{k!r}: {source_text(v, held)}" for k, v in given.kwargs.items())
    leaves = [
        *tensor_leaves(call.record.get("input_args", call.record.get("input"))),
        *tensor_leaves(call.record.get("input_kwargs")),
    ]
    if [leaf.get("shape") for leaf in leaves] != [list(one.shape) for one in held]:
        return fact("operator.no_arguments")
    writer = _Writer(source)
    brought = list(tensor_leaves((call.backward or {}).get("input")))
    try:
        rows = [
            f"        ({writer.text(leaf)}, {one.requires_grad}),"
            for leaf, one in zip(leaves, held, strict=True)
        ]
        ends = [f"        {writer.text(leaf)}," for leaf in brought]
    except CannotRebuildError as why:
        return why.reason
    recorded = [
        f"print({_recorded(number, leaf)!r})"
        for number, leaf in enumerate(tensor_leaves(call.record.get("output")))
    ]
    return _SCRIPT.format(
        name=call.name,
        device=device,
        autocast=_autocast(leaves, list(tensor_leaves(call.record.get("output")))),
        more=", and the files of the dump" if writer.reads else "",
        operands="\n".join(rows),
        gradients="\n".join(ends),
        args=args,
        kwargs="{" + kwargs + "}",
        function=path,
        recorded="\n".join(recorded),
    )


class _Writer:
    """Writes tensors as source; ``reads`` tells whether one is read from a file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._count = 0
        self.reads = False

    def text(self, leaf: dict[str, Any]) -> str:
        """A tensor: written out, packed, read, or made of the recorded range."""
        shape, dtype = leaf.get("shape"), str(leaf.get("dtype"))
        known, is_real = rebuild(leaf, "", self._source)
        if is_real and known.numel() <= _MOST_WRITTEN:
            return literal(known.detach())
        path = self._path(leaf.get("data_name"))
        size = known.numel() * known.element_size()
        if is_real and (path is None or size <= _MOST_PACKED):
            held = known.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            return f"packed({b64encode(compress(held)).decode()!r}, {shape}, {dtype})"
        if path is not None:
            self.reads = True
            return f"stored({str(path.absolute())!r}, {shape}, {dtype})"
        self._count += 1
        low, high = (_number(leaf.get(key), end) for key, end in (("Min", 0.0), ("Max", 1.0)))
        return f"made({shape}, {dtype}, {low}, {high}, {self._count})"

    def _path(self, file: object) -> Path | None:
        """The file of its own that a tensor lies in."""
        if self._source.directory is None or not isinstance(file, str):
            return None
        path = self._source.directory / file
        return path if path.suffix in (".pt", ".npy") and path.is_file() else None


def _number(value: object, otherwise: float) -> str:
    number = value if isinstance(value, (int, float)) else otherwise
    return f"float({str(float(number))!r})"


def _autocast(given: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """The type that autocast computed in: results of it though operands are wider."""
    own = {str(leaf.get("dtype")) for leaf in given}
    found = {str(leaf.get("dtype")) for leaf in results} & set(_HALF_PRECISION)
    return found.pop() if "torch.float32" in own and len(found) == 1 else "None"


def _recorded(number: int, leaf: dict[str, Any]) -> str:
    named = ", ".join(
        f"{key.lower()} {leaf[key]!r}" for key in ("Max", "Min", "Mean", "Norm") if key in leaf
    )
    return f"recorded output {number} ({leaf.get('dtype')}): {named}"


def _path(name: str, function: Any) -> str | None:
    """The name by which the script calls a function."""
    own = ".".join(name.split(".")[1:-1])
    if name.startswith("Aten."):
        return f"torch.ops.aten.{own}"
    for path, module in _MODULES:
        for attribute in (own, own.partition("_")[2]):
            if attribute and getattr(module, attribute, None) is function:
                return f"{path}.{attribute}"
    return None
