"""A recorded call run again, forward and backward, at one precision on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from msprobe_operators.call.arguments import map_tensors, tensors
from msprobe_operators.rerun.reference import random_state_kept

Function = Callable[..., Any]

_MASK = 1e9
_LOW = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Outcome:
    """Results and gradients of the operands that ask for one; lists of tensors and numbers."""

    results: list[Any]
    gradients: list[Tensor | None]


def run_call(
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    device: torch.device,
    wide: bool = False,
    dtype: torch.dtype | None = None,
    into: list[Tensor] | None = None,
) -> Outcome:
    """Call a function on copies of its operands, then backward from its floating results.

    ``wide`` computes in float64; ``dtype`` converts floating operands. ``into`` gives the gradients
    of the results that carry one, in order; without it no backward is run.
    """
    leaves: list[Tensor] = []

    def place(tensor: Tensor) -> Tensor:
        target = dtype if tensor.is_floating_point() else None
        if wide and tensor.is_floating_point():
            target = torch.float64
        elif wide and tensor.is_complex():
            target = torch.complex128
        copied = tensor.detach().to(device=device, dtype=target, copy=True)
        if not tensor.requires_grad:
            return copied
        leaves.append(copied.requires_grad_(True))
        return copied.clone()  # what is written to may be no leaf

    placed, named = map_tensors(args, place), map_tensors(kwargs, place)
    named = {key: _argument(value, device, wide) for key, value in named.items()}
    placed = tuple(_argument(value, device, wide) for value in placed)
    with random_state_kept(), torch.enable_grad():
        result = function(*placed, **named)
        results = flat(result)
        if into is None or not leaves:
            return Outcome(results, [])
        ends = [one for one in results if isinstance(one, Tensor) and one.requires_grad]
        if not ends:
            return Outcome(results, [])
        grads = [_like(grad, end) for grad, end in zip(into, ends, strict=True)]
        gradients = torch.autograd.grad(ends, leaves, grads, allow_unused=True)
    return Outcome(results, list(gradients))


def gradient_by_differences(
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    into: list[Tensor],
    gradients: list[Tensor | None],
) -> float | None:
    """Relative error of a backward against central differences of the forward, in float64.

    Along one fixed direction v it compares Σ⟨gradient, v⟩ with (F(x + hv) - F(x - hv)) / 2h, where
    F is the sum of results times their gradients. None when two widths h or the slopes of both
    sides disagree, as at a kink, or nothing moves, so that differences tell nothing.
    """
    source = torch.Generator().manual_seed(7)
    directions: list[Tensor] = []

    def moved(by: float) -> float:
        rest = iter(directions)

        def move(tensor: Tensor) -> Tensor:
            if not (tensor.requires_grad and tensor.is_floating_point()):
                return tensor
            return (tensor.detach().double() + by * next(rest)).requires_grad_(True)

        outcome = run_call(
            function,
            map_tensors(args, move),
            map_tensors(kwargs, move),
            device=torch.device("cpu"),
            wide=True,
        )
        ends = [one for one in outcome.results if isinstance(one, Tensor) and one.requires_grad]
        return float(
            sum(_product(end.detach(), grad) for end, grad in zip(ends, into, strict=True))
        )

    told = largest = 0.0
    wanted = [t for t in tensors((args, kwargs)) if t.requires_grad]
    if any(t.is_complex() for t in wanted):
        return None
    for leaf, gradient in zip(wanted, gradients, strict=True):
        height = leaf.detach().double().abs()
        height = torch.where(height < _MASK, height, 0.0)  # fillers of masks stay where they are
        size = float(height.mean()) or 1.0
        v = torch.randn(leaf.shape, generator=source, dtype=torch.float64) * size
        v = torch.where(leaf.detach().double().abs() < _MASK, v, 0.0)
        directions.append(v)
        if gradient is not None:
            product = gradient.detach().cpu().double() * v
            told += float(product.sum())
            largest += float(product.abs().sum())
    widths = (1e-6, 2.5e-7)
    ends = [(moved(h), moved(-h)) for h in widths]
    here = moved(0.0)
    quotients = [
        (ahead - behind) / (2 * h) for h, (ahead, behind) in zip(widths, ends, strict=True)
    ]
    scale = max(largest, max(map(abs, quotients)))
    # What float64 itself loses in the difference of two sums of this size.
    lost = 1e-13 * max(abs(end) for pair in ends for end in pair) / widths[-1]
    if not isfinite(scale) or abs(quotients[0] - quotients[1]) + lost > 1e-4 * scale:
        return None
    # At a kink, such as equal values that are sorted, the slopes of both sides disagree.
    ahead, behind = ends[-1]
    bend = abs(ahead - 2 * here + behind) / widths[-1]
    if not scale or bend > 1e-4 * scale + 4 * lost:
        return None
    return abs(told - quotients[1]) / scale


def bytes_of_result(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How much memory the results take, told without computing them; 0 when that cannot be told."""
    meta = torch.device("meta")

    def shape_only(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=meta)

    try:
        with torch.no_grad(), meta:
            result = function(
                *(_argument(value, meta, False) for value in map_tensors(args, shape_only)),
                **{
                    key: _argument(value, meta, False)
                    for key, value in map_tensors(kwargs, shape_only).items()
                },
            )
    except Exception:  # values decide about the shape, or there is no rule for it
        return 0
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(result))


def flat(result: Any) -> list[Any]:
    """Results in one list; None is left out."""
    if isinstance(result, (tuple, list)):
        return [part for item in result for part in flat(item)]
    return [] if result is None else [result]


def _product(end: Tensor, gradient: Tensor) -> Tensor:
    """The change of a loss by ``end``, of complex ones as torch counts it: Re Σ g* z."""
    if end.is_complex():
        return (end.to(torch.complex128) * gradient.to(torch.complex128).conj()).real.sum()
    return (end.double() * gradient.double()).sum()


def _like(gradient: Tensor, end: Tensor) -> Tensor:
    return gradient.to(device=end.device, dtype=end.dtype).reshape(end.shape)


def _argument(value: Any, device: torch.device, wide: bool) -> Any:
    """Devices and dtypes among the arguments, as the run needs them."""
    if isinstance(value, torch.device):
        return device
    if wide and isinstance(value, torch.dtype) and value in _LOW:
        return torch.float64
    return value
