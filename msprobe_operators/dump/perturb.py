"""``msprobe-operators perturb``: which recorded calls blow rounding up, without a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from math import isinf
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.call.arguments import map_tensors, tensors
from msprobe_operators.dump.calls import RecordedCall, function_of
from msprobe_operators.dump.check import gradients_of_results
from msprobe_operators.dump.operands import CannotRebuildError, Operands, Source, operands
from msprobe_operators.dump.rerun import Function, Outcome, bytes_of_result, run_call
from msprobe_operators.judge.growth import growth, last_bit
from msprobe_operators.rerun.perturb import ReorderedSums, perturbed

# noise moves operands in their last bit; order adds the sums inside the call up backwards.
WAYS = ("noise", "order")
STEADY, AMPLIFIES, UNTESTED = "steady", "amplifies", "not tested"
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class PerturbRow:
    """How much further one direction of a call moves than what it is given.

    ``growth`` is the relative change of the results in units of the operands' last bit.
    """

    name: str
    direction: str
    status: str
    growth: float = 0.0
    operands: str = ""  # real or made up
    reason: Fact | None = None

    @property
    def said(self) -> Fact:
        """What is said of it."""
        call = f"{self.name}.{self.direction}"
        if self.status == UNTESTED:
            return fact("operator.untested", call=call, reason=self.reason)
        if self.status == AMPLIFIES:
            return fact("operator.amplifies", call=call, reason=self.reason)
        return fact("operator.steady", call=call)

    @property
    def sentence(self) -> str:
        """The same in words."""
        return tell(self.said)


def perturb_recorded(call: RecordedCall, source: Source, way: str, most: float) -> list[PerturbRow]:
    """Rows for the forward and, where one was recorded, the backward of a call.

    ``most`` is the growth above which a call amplifies.
    """
    function = function_of(call)
    if isinstance(function, Fact):
        return untested(call, function)
    try:
        given = operands(call.in_torch + ".forward", call.record, source)
        size = bytes_of_result(function, given.args, given.kwargs)
        if size > source.most_bytes:
            raise CannotRebuildError(fact("operator.too_large", size=size))
        return list(_rows(call, function, given, source, way, most))
    except CannotRebuildError as why:
        reason = why.reason
    except Exception as error:  # kernels and hostile records raise anything
        text = " ".join(str(error).split())[:200] or type(error).__name__
        reason = fact("operator.does_not_run", error=text)
    return untested(call, reason)


def untested(call: RecordedCall, why: Fact) -> list[PerturbRow]:
    """Rows of a call that could not be run."""
    return [PerturbRow(call.name, one, UNTESTED, reason=why) for one in call.directions]


def _rows(
    call: RecordedCall, function: Function, given: Operands, source: Source, way: str, most: float
) -> Iterator[PerturbRow]:
    kind = "real" if given.is_real else "made up"
    relative = last_bit((given.args, given.kwargs))
    is_noise = way == "noise"
    # Noise tells the condition of the call itself, so that no kernel's rounding is in it.
    base = run_call(function, given.args, given.kwargs, device=_CPU, wide=is_noise)
    into = None
    if call.backward is not None:
        into, _ = gradients_of_results(call, base, source)
        base = run_call(function, given.args, given.kwargs, device=_CPU, wide=is_noise, into=into)
    sums = ReorderedSums() if way == "order" else None
    moved = _moved(function, given, into, relative) if is_noise else None
    if moved is None:
        with sums or nullcontext():
            moved = run_call(function, given.args, given.kwargs, device=_CPU, into=into)

    def row(direction: str, results: list[Any], others: list[Any]) -> PerturbRow:
        reason = None
        if not relative:
            reason = fact("operator.no_floating")
        elif sums is not None and not sums.reversed_sums:
            reason = fact("operator.no_order")
        elif not any(tensor.numel() for tensor in tensors(results)):
            is_backward = direction == "backward"
            reason = fact("operator.no_gradient" if is_backward else "operator.gives_no_tensor")
        if reason is not None:
            return PerturbRow(call.name, direction, UNTESTED, 0.0, kind, reason)
        grown = growth(tensors(results), tensors(others), relative)
        if grown <= most:
            return PerturbRow(call.name, direction, STEADY, grown, kind)
        reason = fact("operator.grows" if is_noise else "operator.order_moves", times=grown)
        if isinf(grown):
            reason = fact("operator.rounding_from_zero")
        return PerturbRow(call.name, direction, AMPLIFIES, grown, kind, reason)

    yield row("forward", base.results, moved.results)
    if call.backward is not None:
        yield row("backward", base.gradients, moved.gradients)


def _moved(
    function: Function, given: Operands, into: list[Tensor] | None, relative: float
) -> Outcome:
    """The call in float64 on operands and gradients that are moved in their last bit."""

    def wide(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor.detach().double()

    wishes = [tensor.requires_grad for tensor in tensors((given.args, given.kwargs))]
    args, kwargs = perturbed(
        map_tensors(given.args, wide), map_tensors(given.kwargs, wide), relative
    )
    for tensor, wish in zip(tensors((args, kwargs)), wishes, strict=True):
        if wish:
            tensor.requires_grad_(True)
    ends = None if into is None else list(perturbed(tuple(into), {}, relative)[0])
    return run_call(function, args, kwargs, device=_CPU, wide=True, into=ends)
