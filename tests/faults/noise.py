"""What makes two correct runs differ: rounding of other kernels, imitated."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# These hand on or make up values, or count; no kernel would round them.
_EXACT = (
    "alias _to_copy arange as_strided bernoulli bincount cat ceil clone constant_pad_nd copy "
    "detach diagonal dropout embedding empty expand eye fill flip floor full gather histc index "
    "masked_fill "
    "max min amax amin max_pool2d_with_indices native_dropout neg new_empty new_full new_ones "
    "new_zeros nonzero "
    "normal one_hot ones ones_like permute rand randn relu repeat reshape roll round scalar_tensor "
    "scatter select set sign slice sort split split_with_sizes squeeze stack t topk transpose tril "
    "triu trunc unbind unfold uniform unsafe_view unsqueeze view where zeros zeros_like "
).split()


_COMPUTED = (torch.float32, torch.float64)
_HALVES = (torch.float16, torch.bfloat16)


class RelativeNoise(TorchDispatchMode):
    """Multiply every element that a kernel computes by 1 + level · N(0, 1).

    Half precision is left alone unless it is given a level of its own.
    """

    def __init__(self, level: float, seed: int, half_level: float = 0.0) -> None:
        super().__init__()
        self._level, self._half_level = level, half_level
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # what this mode does is not part of the run
            return self._noisy(func, args, kwargs or {})

    def _noisy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        name = func.__name__.partition(".")[0]
        if name.rstrip("_") in _EXACT or ("backward" in name and "max_pool" in name):
            return result
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(one, torch.Tensor) or not one.numel():
                continue
            if one.dtype in _COMPUTED:
                noise = torch.randn(one.shape, generator=self._random, dtype=one.dtype)
                one.mul_(1 + self._level * noise)
            elif self._half_level and one.dtype in _HALVES:
                noise = torch.randn(one.shape, generator=self._random)
                one.copy_(one.float() * (1 + self._half_level * noise))
        return result


class ReducedProducts(TorchDispatchMode):
    """Round what convolutions, or all products, are given to 10 bits, as matrix units do (TF32)."""

    def __init__(self, names: str) -> None:
        super().__init__()
        self._names = names.split()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.__name__.partition(".")[0] in self._names:
            with torch._C.DisableTorchFunction():
                args = tuple(_rounded(one) for one in args)
        return func(*args, **(kwargs or {}))


CONVOLUTIONS = "convolution convolution_backward mkldnn_convolution"
PRODUCTS = f"{CONVOLUTIONS} mm bmm addmm baddbmm"


def _rounded(value: Any) -> Any:
    """A tensor of float32 whose numbers keep 10 bits behind the first one."""
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    return ((bits + (1 << 12)) & -(1 << 13)).view(torch.float32)
