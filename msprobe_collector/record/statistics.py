"""The four statistics of a tensor, without touching the training.

Values are reduced in the accuracy they deserve: half precision in float32 (so that the norm does
not overflow), integers in float64, float64 in itself.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import torch

from msprobe_collector.record.device_rows import (
    TINY_NORM,
    DeviceRows,
    Row,
    Values,
    plain_integer,
)

FIELDS = ("Max", "Min", "Mean", "Norm")
_NOTHING: tuple[None, None, None, None] = (None, None, None, None)
_HAS_CUDA = torch.backends.cuda.is_built()
_HALF = 2**63
_SAFE_NORMS = (TINY_NORM, 1e15)
# Squares that torch adds up in float32 one after the other leave an error that grows with their
# number, 1e-6 of the norm of a thousand equal numbers; what it adds up by pairs does not.
_SHORT_NORM = 1 << 10
_LONGEST_NORM = 1 << 17  # beyond it the squares would take much memory
_norm = torch.linalg.vector_norm
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
SHORT = 1 << 12  # bytes that are kept to be compared: quicker than any sum of them
_INTEGERS = frozenset(
    {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
    | {torch.uint16, torch.uint32, torch.uint64}
)


class _Kinds(dict[torch.dtype, str]):
    """How numbers of a type are reduced: "float", "int", "bool" or "complex"."""

    def __missing__(self, dtype: torch.dtype) -> str:
        kind = "int"
        if dtype is torch.bool:
            kind = "bool"
        elif dtype.is_complex:
            kind = "complex"
        elif dtype.is_floating_point:
            kind = "float"
        return self.setdefault(dtype, kind)


_KINDS = _Kinds()
# Of these torch reduces the wider signed ones alone.
_SIGNED = {torch.uint16: torch.int32, torch.uint32: torch.int64}
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Measured(NamedTuple):
    """The four numbers and the exact sum they came with, None when it identifies nothing."""

    values: Values
    total: float | None


def local_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """The plain tensor whose memory this process can read, None when there is none."""
    plain = plain_part(tensor)
    memory = None if plain is None else memory_of(plain)
    if plain is None or memory is None or not is_in_memory(plain, memory.nbytes()):
        return None
    return plain


def memory_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Where a plain tensor keeps its numbers; None for one that stands for many at once."""
    try:
        return tensor.untyped_storage()
    except RuntimeError:  # of which the one of newer torch is a kind
        return None


def plain_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """As :func:`local_part`, of which the memory may have been given back."""
    if tensor.is_nested:
        if tensor.layout is torch.jagged:
            values = getattr(tensor, "_values", None)
            return plain_part(values) if isinstance(values, torch.Tensor) else None
        return None
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        local = getattr(tensor, "_local_tensor", None)  # DTensor: this rank's shard
        if isinstance(local, torch.Tensor):
            return plain_part(local)
        if _is_without_values(tensor):
            return None
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
        return None
    if _is_wrapped(tensor):
        return None
    return tensor


def is_in_memory(tensor: torch.Tensor, size: int) -> bool:
    """Whether a storage of ``size`` bytes, which may have been shrunk, reaches to the last number.

    Torch does not look when it reads: beyond the end lies whatever the process has there.
    """
    offset = tensor.storage_offset()
    if tensor.is_contiguous():
        return size >= (offset + tensor.numel()) * tensor.itemsize
    shape = tensor.shape
    if 0 in shape:
        return True
    last = offset + sum((n - 1) * step for n, step in zip(shape, tensor.stride(), strict=True))
    return size >= (last + 1) * tensor.itemsize


def _is_without_values(tensor: torch.Tensor) -> bool:
    names = {kind.__name__ for kind in type(tensor).__mro__}
    if names & {"FakeTensor", "AsyncCollectiveTensor", "FunctionalTensor"}:
        return True
    try:  # one that only stands for others has a shape, and no memory
        return tensor.numel() > 0 and tensor.data_ptr() == 0
    except (RuntimeError, NotImplementedError):
        return True


def measure(tensor: torch.Tensor, there: DeviceRows | None = None) -> Measured | Row:
    """Max, min, mean and norm of a plain tensor; call inside ``unseen``.

    On an accelerator they are written ``there``, and a row tells where.
    Numbers that torch cannot reduce, such as those of 4 bits, have none.
    """
    try:
        return _measure(tensor, there)
    except RuntimeError as error:
        # Older torch has no type of its own for this.
        if type(error) is not NotImplementedError and "not implemented for" not in str(error):
            raise
        return Measured(_NOTHING, None)


def _measure(tensor: torch.Tensor, there: DeviceRows | None) -> Measured | Row:
    if tensor.numel() == 0:
        return Measured(_NOTHING, None)
    kind = _KINDS[tensor.dtype]
    if kind == "complex":
        tensor = tensor.abs()
    elif tensor.dtype in _SIGNED:
        tensor = tensor.to(_SIGNED[tensor.dtype])
    elif tensor.dtype is torch.uint64 and tensor.is_cpu and tensor.dim():
        return _measure_widest(tensor)
    if tensor.is_cpu:
        return _measure_here(tensor, kind)
    if there is None or is_capturing():
        return Measured(_NOTHING, None)
    return there.measure(tensor, kind)


def _measure_here(tensor: torch.Tensor, kind: str) -> Measured:
    if kind == "bool":
        return Measured((tensor.any().item(), tensor.all().item(), None, None), None)
    if tensor.dim() == 0:
        value = plain_integer(tensor.item())
        norm = None if kind == "complex" else abs(value)
        return Measured((value, value, value, norm), None)
    if tensor.itemsize == 1 and kind != "int":
        tensor = tensor.float()  # float8 has no reductions
    if tensor.is_contiguous():
        low, high = torch.aminmax(tensor)
    else:  # of which the other makes a copy first
        low, high = tensor.amin(), tensor.amax()
    if kind == "int":
        extremes = (plain_integer(high.item()), plain_integer(low.item()))
        tensor = tensor.double()
    else:
        extremes = (high.item(), low.item())
    accurate = _accurate(tensor.dtype)
    is_accurate = tensor.dtype is accurate
    total = (tensor.sum() if is_accurate else tensor.sum(dtype=accurate)).item()
    size = tensor.numel()
    mean = total / size
    if kind == "complex":
        return Measured((*extremes, mean, None), None)
    norm = _norm_here(tensor, accurate)
    if not _SAFE_NORMS[0] < norm < _SAFE_NORMS[1] and all(map(math.isfinite, extremes)):
        # The squares leave the range of float32 although the numbers do not.
        norm = torch.linalg.vector_norm(tensor, dtype=torch.float64).item()
        mean = tensor.mean(dtype=torch.float64).item()
    return Measured((*extremes, mean, norm), total if kind == "float" and total != 0 else None)


def _measure_widest(tensor: torch.Tensor) -> Measured:
    """As :func:`_measure_here` unsigned integers of 64 bits, which torch cannot reduce."""
    ordered = tensor.view(torch.int64) ^ -_HALF  # as signed ones they lie half the range lower
    low, high = (plain_integer(extreme.item() + _HALF) for extreme in torch.aminmax(ordered))
    wide = tensor.to(torch.float64)
    return Measured((high, low, wide.mean().item(), _norm(wide).item()), None)


def _norm_here(tensor: torch.Tensor, accurate: torch.dtype) -> float:
    """The norm of numbers on the host, the same for a tensor and for its transposed views.

    Who made a tensor is told by its statistics: torch goes through both in the order of memory.
    """
    if tensor.numel() >= _LONGEST_NORM and accurate is not torch.float64:
        tensor = tensor.permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))
        if tensor.is_contiguous():
            return _long_norm(tensor, accurate).item()
        return _norm(tensor, dtype=torch.float64).item()
    is_expanded = 0 in tensor.stride()  # whose few numbers are added up one by one
    if accurate is torch.float64 or (tensor.numel() < _SHORT_NORM and not is_expanded):
        return _norm(tensor, dtype=accurate).item()
    wide = tensor.to(accurate)
    return math.sqrt((wide * wide).sum().item())


def _long_norm(tensor: torch.Tensor, accurate: torch.dtype) -> torch.Tensor:
    """The norm of a long tensor on the host by parts, whose norms add up in float64."""
    flat = tensor.view(-1)
    length = 1 << (tensor.numel().bit_length() // 2)
    whole = flat.numel() - flat.numel() % length
    parts = torch.linalg.vector_norm(flat[:whole].view(-1, length), dim=1, dtype=accurate)
    rest = torch.linalg.vector_norm(flat[whole:], dtype=accurate)
    return torch.linalg.vector_norm(torch.cat((parts, rest.view(1))), dtype=torch.float64)


def bits_of(tensor: torch.Tensor) -> int | bytes | None:
    """What tells a plain tensor on the host from what others may make of it, None if nothing does.

    Of few numbers the bytes, of more the patterns of their bits added up: unlike the sum of the
    numbers it changes when one number grows as much as another shrinks, unless they are integers.
    """
    if tensor.is_conj() or tensor.is_neg():
        return None
    size = tensor.numel() * tensor.itemsize
    is_contiguous = tensor.is_contiguous()
    if size <= SHORT and is_contiguous:
        return ctypes.string_at(tensor.data_ptr(), size)
    kind = _BITS.get(tensor.itemsize)
    if kind is None or tensor.dtype in _INTEGERS:
        return None
    if is_contiguous and size % 8 == 0:
        return int(tensor.view(-1).view(torch.int64).sum().item())  # several times as fast
    return int(tensor.view(kind).sum().item())


def is_unchanged(tensor: torch.Tensor, total: float | None) -> bool:
    """Whether a plain tensor on the host still adds up to ``total``; one pass instead of three."""
    if total is None or tensor.itemsize == 1:
        return False
    if tensor.dtype is torch.float32 or tensor.dtype is torch.float64:
        return bool(tensor.sum().item() == total)
    return bool(tensor.sum(dtype=torch.float32).item() == total)


def _accurate(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured: what is called then runs later, and not for us."""
    if not _HAS_CUDA or not torch.cuda.is_initialized():
        return False
    return torch.cuda.is_current_stream_capturing()
