"""``msprobe-operators check``: every recorded call against its reference, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from math import inf
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.dump.argument_gradients import by_argument
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.call.arguments import map_tensors
from msprobe_operators.dump.autocast import as_computed, computed_in, is_cast, rounded
from msprobe_operators.dump.calls import RecordedCall, function_of
from msprobe_operators.dump.gradients import is_one_step, recorded_gradients, tells_all
from msprobe_operators.dump.operands import CannotRebuildError, Operands, Source, operands, rebuild
from msprobe_operators.dump.rerun import (
    Function,
    Outcome,
    bytes_of_result,
    flat,
    gradient_by_differences,
    run_call,
)
from msprobe_operators.judge.compare import Judgement, Status, judge
from msprobe_operators.rerun.perturb import RoundedSteps, perturbed

_CPU = torch.device("cpu")
# A backward whose sum along one direction is off by more is wrong: differences are good to 1e-5.
_WRONG_GRADIENT = 1e-3
_MOST_EXCHANGED = 4  # gradients, of which other orders are tried


@dataclass(frozen=True)
class CheckRow:
    """What was found of one direction of one call.

    ``compared`` is ``recorded`` when the results in the dump were judged, ``device`` when those of
    a second run on the device were.
    """

    name: str
    direction: str
    status: str
    compared: str = ""
    operands: str = ""  # real or made up
    error: float = 0.0
    times: float = 0.0
    reason: Fact | None = None
    device: str = ""

    @property
    def said(self) -> Fact:
        """What is said of it."""
        call = f"{self.name}.{self.direction}"
        if self.status == Status.FAILED.value:
            is_recorded = self.compared == "recorded"
            code = "operator.recorded_wrong" if is_recorded else "operator.result_wrong"
            size = None if self.times in (0.0, inf) else fact("operator.size", times=self.times)
            return fact(code, call=call, reason=self.reason, size=size)
        if self.status == Status.PASSED.value:
            but = None if self.reason is None else fact("operator.but", what=self.reason)
            return fact("operator.right", call=call, but=but)
        return fact("operator.untested", call=call, reason=self.reason)

    @property
    def sentence(self) -> str:
        """The same in words."""
        return tell(self.said)


@dataclass(frozen=True)
class CheckOptions:
    """Where calls run and with which reference (``cpu`` or ``float64``)."""

    source: Source
    device: str = "cpu"
    reference: str = "float64"


def check_recorded(call: RecordedCall, options: CheckOptions) -> list[CheckRow]:
    """Rows for the forward and, where one was recorded, the backward of a call."""
    function = function_of(call)
    if isinstance(function, Fact):
        return untested(call, function, options.device)
    try:
        given = operands(call.in_torch + ".forward", call.record, options.source)
        size = bytes_of_result(function, given.args, given.kwargs)
        if size > options.source.most_bytes:
            raise CannotRebuildError(fact("operator.too_large", size=size))
        return list(_rows(call, function, given, options))
    except CannotRebuildError as why:
        return untested(call, why.reason, options.device)
    except Exception as error:  # kernels and hostile records raise anything
        text = " ".join(str(error).split())[:200] or type(error).__name__
        return untested(call, fact("operator.does_not_run", error=text), options.device)


def untested(call: RecordedCall, why: Fact, device: str) -> list[CheckRow]:
    """Rows of a call that could not be checked."""
    return [_untested(call, one, why, device) for one in call.directions]


def _rows(
    call: RecordedCall, function: Function, given: Operands, options: CheckOptions
) -> Iterator[CheckRow]:
    device = torch.device(options.device)
    narrow = computed_in(call, given)
    as_there = as_computed(function, narrow, device)
    here = run_call(as_there, given.args, given.kwargs, device=device)
    into, is_recorded = gradients_of_results(call, here, options.source)
    wants_backward = into is not None and call.backward is not None
    if wants_backward:
        here = run_call(as_there, given.args, given.kwargs, device=device, into=into)
    wide = options.reference == "float64" or options.device == "cpu" or narrow is not None
    there = _reference(function, given, wide, into if wants_backward else None)
    kind = "real" if given.is_real else "made up"

    def moved(relative: float, draw: int, gradients: bool = False) -> list[Any] | None:
        args, kwargs = perturbed(
            map_tensors(given.args, _detached_wide),
            map_tensors(given.kwargs, _detached_wide),
            relative,
            draw=draw,
        )
        ends = (
            None
            if into is None or not gradients
            else list(perturbed(tuple(into), {}, relative, draw=draw)[0])
        )
        with RoundedSteps(relative, draw):
            again = _reference(function, Operands(args, kwargs, False), True, ends)
        return list(again.gradients) if gradients else again.results

    name = call.in_torch.split(".")[1].removeprefix("__").removesuffix("__").rstrip("_")
    recorded = recorded_results(call, options) if given.is_real else None
    if recorded is not None and _alike(recorded, there.results):
        compared, results = "recorded", recorded
    else:
        compared, results = "device", here.results
    verdict = judge(name, given.args, results, there.results, moved)
    yield _row(call, "forward", verdict, compared, kind, options)
    if call.backward is None:
        return
    if not wants_backward or not there.gradients:
        yield _untested(call, "backward", fact("operator.no_gradient"), options.device)
        return
    compared, gradients = "device", here.gradients
    if _overflows(here.results, there.results):
        why = fact("operator.forward_overflows", dtype=_dtype_of(here.results))
        yield _untested(call, "backward", why, options.device)
        return
    if given.is_real and is_recorded and (tells_all(call) or is_one_step(here.results)):
        stored = recorded_gradients(
            call, (given.args, given.kwargs), there.gradients, options.source
        )
        if stored is not None:
            compared, gradients = "recorded", stored
    gradients = rounded(gradients, narrow)
    pairs = [
        (one, other)
        for one, other in zip(gradients, there.gradients, strict=True)
        if one is not None and other is not None
    ]
    places = [n for n, one in enumerate(gradients) if one is not None]

    def moved_gradients(relative: float, draw: int) -> list[Any] | None:
        found = moved(relative, draw, gradients=True)
        return None if found is None else [found[place] for place in places]

    def judged(found: Sequence[Tensor]) -> Judgement:
        wanted = [other for _, other in pairs]
        return judge(f"{name}_backward", (given.args, into), list(found), wanted, moved_gradients)

    verdict = judged([one for one, _ in pairs])
    if verdict.status is Status.FAILED and compared == "recorded" and call.name != call.in_torch:
        verdict = _in_another_order([one for one, _ in pairs], judged) or verdict
    # A cast rounds in float64, too, so that differences of it tell nothing.
    if verdict.status is Status.PASSED and into is not None and not is_cast(call.in_torch):
        wrong = gradient_by_differences(function, given.args, given.kwargs, into, there.gradients)
        if wrong is not None and wrong > _WRONG_GRADIENT:
            verdict = Judgement(
                Status.FAILED,
                fact("operator.gradient", share=wrong),
                wrong,
                wrong / _WRONG_GRADIENT,
            )
    yield _row(call, "backward", verdict, compared, kind, options)


def _in_another_order(
    gradients: list[Tensor], judged: Callable[[Sequence[Tensor]], Judgement]
) -> Judgement | None:
    """The judgement where recorded gradients of equal shape are right, but exchanged.

    Recorders of MindSpore number them as the framework brings them.
    """
    if len(gradients) > _MOST_EXCHANGED:
        return None
    shapes = [one.shape for one in gradients]
    for order in permutations(gradients):
        if [one.shape for one in order] != shapes:
            continue
        found = judged(order)
        if found.status is Status.PASSED:
            why = fact("operator.gradients_exchanged")
            return Judgement(Status.PASSED, why, found.error, found.times)
    return None


def _reference(
    function: Function, given: Operands, wide: bool, into: list[Tensor] | None
) -> Outcome:
    """The call on the CPU; half precision that it cannot compute is widened."""
    try:
        return run_call(function, given.args, given.kwargs, device=_CPU, wide=wide, into=into)
    except RuntimeError as error:
        if wide or "not implemented for" not in str(error):
            raise
        return run_call(
            function, given.args, given.kwargs, device=_CPU, dtype=torch.float32, into=into
        )


def gradients_of_results(
    call: RecordedCall, outcome: Outcome, source: Source
) -> tuple[list[Tensor] | None, bool]:
    """Gradients of the results and whether they are the recorded ones.

    They are made up where the dump does not tell which gradient is whose; None when no result
    carries one. A result that nobody used has none recorded: it is zero.
    """
    ends = [one for one in outcome.results if isinstance(one, Tensor) and one.requires_grad]
    if not ends:
        return None, False
    recorded: list[Tensor] = []
    if call.backward is not None:
        leaves = by_argument(call.backward).get("input")
        for number, leaf in enumerate(leaves if isinstance(leaves, list) else []):
            if isinstance(leaf, dict) and "shape" in leaf:
                place = f"{call.name}.backward.{number}"
                recorded.append(rebuild(leaf, place, source)[0].detach())
    chosen = list(
        islice(
            (
                places
                for places in combinations(range(len(ends)), len(recorded))
                if all(
                    ends[at].shape == one.shape for at, one in zip(places, recorded, strict=True)
                )
            ),
            2,
        )
    )
    if recorded and len(chosen) == 1:
        whose = dict(zip(chosen[0], recorded, strict=True))
        return [whose.get(at, torch.zeros_like(end)).detach() for at, end in enumerate(ends)], True
    drawn = torch.Generator().manual_seed(11)
    return [torch.randn(end.shape, generator=drawn, dtype=torch.float64) for end in ends], False


def _overflows(results: list[Any], references: list[Any]) -> bool:
    """Whether a result is infinite where the reference is not."""
    return any(
        bool((torch.isinf(one.detach().cpu()) & torch.isfinite(other.detach().cpu())).any())
        for one, other in zip(results, references, strict=False)
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
    )


def _dtype_of(results: list[Any]) -> str:
    found = next(
        one.dtype for one in results if isinstance(one, Tensor) and one.is_floating_point()
    )
    return str(found).removeprefix("torch.")


def recorded_results(call: RecordedCall, options: CheckOptions) -> list[Any] | None:
    """The results in the dump's files, None when they are not all there."""
    if options.source.directory is None:
        return None
    outputs = call.record.get("output")
    try:
        return (
            flat(
                [
                    rebuild(leaf, "output", options.source)[0].detach()
                    for leaf in (outputs if isinstance(outputs, list) else [])
                    if isinstance(leaf, dict) and isinstance(leaf.get("data_name"), str)
                ]
            )
            or None
        )
    except CannotRebuildError:
        return None


def _alike(recorded: list[Any], references: list[Any]) -> bool:
    wanted = [one for one in references if isinstance(one, Tensor)]
    return len(recorded) == len(wanted) == len(references)


def _detached_wide(tensor: Tensor) -> Tensor:
    wide = tensor.detach().double() if tensor.is_floating_point() else tensor.detach()
    return wide.requires_grad_(tensor.requires_grad)


def _row(
    call: RecordedCall,
    direction: str,
    verdict: Judgement,
    compared: str,
    kind: str,
    options: CheckOptions,
) -> CheckRow:
    return CheckRow(
        call.name,
        direction,
        verdict.status.value,
        compared,
        kind,
        verdict.error,
        verdict.times,
        verdict.reason,
        options.device,
    )


def _untested(call: RecordedCall, direction: str, why: Fact, device: str) -> CheckRow:
    return CheckRow(call.name, direction, Status.UNTESTED.value, reason=why, device=device)
