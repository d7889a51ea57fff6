"""Is the result of a call right? Its difference to a second run against expected rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.facts.fact import Fact, fact
from msprobe_operators.call.arguments import tensors
from msprobe_operators.judge.tolerance import factors, length_of_sums, roundoff


class Status(str, Enum):
    """What came out of checking a call."""

    PASSED = "passed"
    FAILED = "failed"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Limits:
    """A fixed tolerance |d - r| <= atol + rtol · |r| in place of expected rounding."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class Judgement:
    """The verdict on one call or one of its results.

    ``times`` is the largest error in units of what is allowed: above 1 it failed. ``error`` is
    the largest absolute difference, ``place`` its index, ``compared`` how many numbers the results
    hold. What passed has a reason where it holds numbers that are not finite, on both sides.
    """

    status: Status
    reason: Fact | None = None
    error: float = 0.0
    times: float = 0.0
    place: tuple[int, ...] = ()
    compared: int = 0


# Gives the reference's results for operands that are moved by a relative amount; the number says
# which draw of random numbers moves them.
Moved = Callable[[float, int], "list[Any] | None"]
# One draw may by chance hardly move a result of this few elements: more are made before it fails.
_FEW, _DRAWS = 64, 4

_PASSED = Judgement(Status.PASSED)


def judge(
    name: str,
    operands: Any,
    results: list[Any],
    references: list[Any],
    moved: Moved | None = None,
    limits: Limits | None = None,
) -> Judgement:
    """Compare all results of a call, the worst counts.

    ``name`` is the operator's, without namespace and overload; ``moved`` is only called when an
    error is larger than the rounding of the result itself.
    """
    if len(results) != len(references):
        reason = fact("operator.results", results=len(results), references=len(references))
        return Judgement(Status.FAILED, reason, inf, inf)
    worst = _PASSED
    cache: dict[tuple[float, int], list[Any] | None] = {}

    def moved_by(u: float, draw: int) -> list[Any] | None:
        if moved is None:
            return None
        if (u, draw) not in cache:
            cache[u, draw] = moved(u, draw)
        return cache[u, draw]

    if name == "abs" and any(one.is_complex() for one in tensors(operands)):
        name = "hypot"  # no longer the same number without its sign
    length = length_of_sums(name, operands, results)
    ties = _ties(results, references)
    for number, (one, other) in enumerate(zip(results, references, strict=True)):
        if number in ties:
            continue
        if isinstance(one, Tensor) != isinstance(other, Tensor):
            return Judgement(Status.FAILED, fact("operator.one_tensor"), inf, inf)
        if not isinstance(one, Tensor):
            found = _judge_value(one, other)
        else:

            def shift(u: float, draw: int, number: int = number) -> Tensor | None:
                all_moved = moved_by(u, draw)
                return None if all_moved is None else all_moved[number]

            found = judge_tensor(name, one, other, length, shift, limits)
        if found.times > worst.times or (
            found.status is Status.FAILED and worst.status is not found.status
        ):
            worst = found
    return _with_extent(worst, results)


def _with_extent(judgement: Judgement, results: list[Any]) -> Judgement:
    """With how much was compared; what holds nothing is not right but untested."""
    held = [one.detach() for one in results if isinstance(one, Tensor)]
    compared = len(results) - len(held) + sum(one.numel() for one in held)
    if judgement.status is Status.FAILED:
        return replace(judgement, compared=compared)
    if not compared:
        return Judgement(Status.UNTESTED, fact("operator.no_elements"))
    bad = sum(sum(count_bad(one)) for one in held)
    reason = fact("operator.bad_in_both", count=bad) if bad else None
    return replace(judgement, reason=reason, compared=compared)


def count_bad(tensor: Tensor) -> tuple[int, int]:
    """How many NaN and how many infinities a tensor holds."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0, 0
    if tensor.element_size() == 1:  # 8-bit floats have no kernels
        tensor = tensor.float()
    return int(torch.isnan(tensor).sum()), int(torch.isinf(tensor).sum())


def judge_tensor(
    name: str,
    result: Tensor,
    reference: Tensor,
    length: int,
    shift: Callable[[float, int], Tensor | None],
    limits: Limits | None = None,
) -> Judgement:
    """Compare two tensors; shape and kind of dtype must be equal, nothing is broadcast."""
    if result.shape != reference.shape:
        shapes = [str(list(one.shape)) for one in (result, reference)]
        reason = fact("operator.shape", result=shapes[0], reference=shapes[1])
        return Judgement(Status.FAILED, reason, inf, inf)
    if _kind(result) != _kind(reference):
        reason = fact("operator.dtype", result=str(result.dtype), reference=str(reference.dtype))
        return Judgement(Status.FAILED, reason, inf, inf)
    if result.numel() == 0:
        return _PASSED
    result, reference = result.detach().cpu(), reference.detach().cpu()
    if _kind(result) == "whole":
        return _judge_whole(result, reference)
    dtype = result.dtype
    stored = reference.to(dtype)
    wide = torch.complex128 if result.is_complex() else torch.float64
    left, right = result.to(wide), reference.to(wide)
    found = _judge_special(result, stored)
    if found is not None:
        return found
    finite = torch.isfinite(result) & torch.isfinite(stored)
    error = torch.where(finite, (left - right).abs(), 0.0)
    size = torch.where(finite, right.abs(), 0.0)
    if limits is not None:
        return _worst(error, limits.atol + limits.rtol * size)
    of_result, of_shift = factors(name, dtype, length)
    u = roundoff(dtype)
    least = torch.finfo(dtype).tiny if of_result else 0.0
    allowed = of_result * u * size + least
    quick = _worst(error, allowed)
    if quick.status is Status.PASSED or of_result == 0.0:
        return quick
    change = torch.zeros_like(error)
    found = quick
    for draw in range(_DRAWS if result.numel() <= _FEW else 1):
        elsewhere = shift(u, draw)
        if elsewhere is None or elsewhere.shape != right.shape:
            # Without a second sample the largest element tells the scale of what was added up.
            return _worst(error, allowed + of_shift * u * size.max())
        moved = (elsewhere.detach().cpu().to(wide) - right).abs()
        moved = torch.nan_to_num(torch.where(finite, moved, 0.0), nan=0.0, posinf=0.0)
        change = torch.maximum(change, moved)
        found = _worst(error, allowed + of_shift * (change + change.max()) / 2)
        if found.status is Status.PASSED:
            break
    return found


def _judge_special(result: Tensor, stored: Tensor) -> Judgement | None:
    """NaN must meet NaN and infinity the same infinity; None when they do."""
    wrong = torch.isnan(result) != torch.isnan(stored)
    reason = fact("operator.one_nan")
    if not wrong.any():
        infinite = torch.isinf(result) | torch.isinf(stored)
        wrong = infinite & (result != stored) & ~torch.isnan(result)
        reason = fact("operator.infinities")
    if not wrong.any():
        return None
    return Judgement(Status.FAILED, reason, inf, inf, _index(wrong.to(torch.uint8)))


def _judge_whole(result: Tensor, reference: Tensor) -> Judgement:
    if result.dtype is torch.bool or reference.dtype is torch.bool:
        wrong = result.to(torch.bool) != reference.to(torch.bool)
    else:
        wrong = result != reference
    if not wrong.any():
        return _PASSED
    count = int(wrong.sum())
    return Judgement(
        Status.FAILED,
        fact("operator.whole_numbers", differing=count, total=wrong.numel()),
        float(count),
        inf,
        _index(wrong.to(torch.uint8)),
    )


def _judge_value(one: Any, other: Any) -> Judgement:
    if one == other or (one != one and other != other):
        return _PASSED
    reason = fact("operator.value", result=repr(one), reference=repr(other))
    if isinstance(one, float) and isinstance(other, float):
        difference = abs(one - other)
        if difference <= 8 * 2.0**-24 * abs(other):
            return _PASSED
        return Judgement(Status.FAILED, reason, difference, inf)
    return Judgement(Status.FAILED, reason, nan, inf)


def _worst(error: Tensor, allowed: Tensor | float) -> Judgement:
    allowed = torch.as_tensor(allowed, dtype=error.dtype)
    times = torch.where(error == 0, 0.0, error / allowed)
    largest = float(times.max())
    place = _index(times)
    if largest <= 1.0:
        return Judgement(Status.PASSED, None, float(error.max()), largest, place)
    count = int((times > 1.0).sum())
    reason = fact("operator.not_close", differing=count, total=error.numel())
    return Judgement(Status.FAILED, reason, float(error.max()), largest, place)


def _index(values: Tensor) -> tuple[int, ...]:
    place = int(values.reshape(-1).argmax())
    return tuple(int(part) for part in torch.unravel_index(torch.tensor(place), values.shape))


def _ties(results: list[Any], references: list[Any]) -> set[int]:
    """Results that are indices of equal values, which may be taken in any order."""
    if len(results) != 2 or len(references) != 2:
        return set()
    values, indices = results
    if not isinstance(values, Tensor) or not isinstance(indices, Tensor):
        return set()
    if indices.dtype is not torch.int64 or values.shape != indices.shape:
        return set()
    if values.shape != references[0].shape:
        return set()
    same = values.detach().cpu() == references[0].detach().cpu().to(values.dtype)
    return {1} if bool(same.all()) else set()


def _kind(tensor: Tensor) -> str:
    if tensor.is_complex():
        return "complex"
    return "floating" if tensor.is_floating_point() else "whole"
