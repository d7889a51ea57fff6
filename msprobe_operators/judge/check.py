"""One check of one ATen call: run it again as asked and judge what came out the first time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from msprobe_builder.facts.fact import Fact, fact
from msprobe_operators.call.arguments import map_tensors, tensors, why_unreadable
from msprobe_operators.call.operator import (
    base_name,
    by_name,
    is_random,
    is_uninitialised,
    is_view,
    written_arguments,
)
from msprobe_operators.judge.compare import Judgement, Limits, Status, judge
from msprobe_operators.rerun.perturb import RoundedSteps, perturbed
from msprobe_operators.rerun.reference import (
    Rerun,
    attempt,
    in_float64,
    on_cpu,
    other_kernel,
    run_again,
)

_NO_ARITHMETIC = frozenset("profiler prim prims c10d _c10d_functional c10d_functional".split())

# A composition of which this is found means something else by a call.
_MEANS_SOMETHING_ELSE = (
    *("operator.shape", "operator.dtype", "operator.results"),
    *("operator.one_tensor", "operator.one_nan"),
)


@dataclass(frozen=True)
class Check:
    """A judged call with the reference's results, for telling where they differ."""

    judgement: Judgement
    results: tuple[Any, ...] = ()
    references: tuple[Any, ...] = ()
    note: Fact | None = None


def why_not_testable(
    operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Fact | None:
    """Why a second run could not tell anything, None when it can."""
    if is_random(operator):
        return fact("operator.draws")
    if is_uninitialised(operator):
        return fact("operator.uninitialised")
    if is_view(operator):
        return fact("operator.view")
    if operator.namespace in _NO_ARITHMETIC:
        return fact("operator.no_arithmetic")
    return why_unreadable((args, kwargs))


def check_call(
    operator: OpOverload,
    before: tuple[tuple[Any, ...], dict[str, Any]],
    after: tuple[tuple[Any, ...], dict[str, Any]],
    result: Any,
    reference: str,
    limits: Limits | None = None,
) -> Check:
    """Judge ``result`` of a call whose arguments were ``before`` and are ``after`` it.

    What the call wrote into its operands counts as a result as well.
    """
    args, kwargs = before
    names = _written_only(operator, after, result)
    results = [*_flat(result), *_named(operator, after, names)]
    if not results:
        return Check(Judgement(Status.UNTESTED, fact("operator.returns_nothing")))
    unreadable = why_unreadable(results)
    if unreadable is not None:
        return Check(Judgement(Status.UNTESTED, unreadable))
    found = _outcome(operator, args, kwargs, reference, names)
    if found.reason is not None:
        reason = fact("operator.reference_cannot", reason=found.reason)
        return Check(Judgement(Status.UNTESTED, reason), note=found.note)

    # The same way to compute, else the difference of both would count as rounding.
    wide = reference if reference == "decomposition" else "float64"

    def moved(relative: float, draw: int) -> list[Any] | None:
        changed = perturbed(*in_float64(operator, args, kwargs), relative, draw=draw)
        with RoundedSteps(relative, draw):
            again = _outcome(operator, *changed, wide, names)
        return None if again.reason is not None else again.result

    judgement = judge(base_name(operator), (args, kwargs), results, found.result, moved, limits)
    return Check(judgement, tuple(results), tuple(found.result), found.note)


def check_by(
    operator: OpOverload,
    before: tuple[tuple[Any, ...], dict[str, Any]],
    after: tuple[tuple[Any, ...], dict[str, Any]],
    result: Any,
    reference: str | None,
    limits: Limits | None = None,
) -> Check:
    """``check_call`` by a reference, or by what the tensors' device leaves when it is None.

    That is the CPU for tensors of other devices; for tensors of the CPU float64 and, where there
    is one, another kernel as well, since one that is wrong in every dtype agrees with itself.
    """
    if reference is not None:
        return check_call(operator, before, after, result, reference, limits)
    if any(tensor.device.type != "cpu" for tensor in tensors(before)):
        return check_call(operator, before, after, result, "cpu", limits)
    check = check_call(operator, before, after, result, "float64", limits)
    if check.judgement.status is not Status.PASSED:
        return check
    other = agrees_with_other_kernel(operator, before, after, result, limits)
    is_wrong = other is not None and other.judgement.status is Status.FAILED
    return other if is_wrong and other is not None else check


def agrees_with_other_kernel(
    operator: OpOverload,
    before: tuple[tuple[Any, ...], dict[str, Any]],
    after: tuple[tuple[Any, ...], dict[str, Any]],
    result: Any,
    limits: Limits | None = None,
) -> Check | None:
    """The check against another kernel of the operator; None when there is none to trust.

    A composition that does not agree with the operator's own float64 in shape or dtype means
    something else by the call and says nothing.
    """
    if other_kernel(operator) is None or written_arguments(operator):
        return None
    if not any(tensor.is_floating_point() for tensor in tensors(before)):
        return None  # what makes tensors of numbers would compute in the result's own precision
    found = check_call(operator, before, after, result, "decomposition", limits)
    judgement = found.judgement
    if judgement.status is Status.UNTESTED:
        return None
    if judgement.reason is not None and judgement.reason.code in _MEANS_SOMETHING_ELSE:
        return None
    note = fact("operator.decomposition")
    return Check(judgement, found.results, found.references, note)


def _outcome(
    operator: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reference: str,
    names: list[str],
) -> Rerun:
    """Results of a second run, with what it wrote into operands of these names."""
    if not names:
        found = run_again(operator, args, kwargs, reference)
        return found if found.reason else replace(found, result=_flat(found.result))
    # The copies that are written to are needed afterwards.
    if reference == "cpu":
        copied = map_tensors(args, on_cpu), map_tensors(kwargs, on_cpu)
    else:
        copied = in_float64(operator, args, kwargs)
    found = attempt(operator, *copied)
    if found.reason:
        return found
    return replace(found, result=[*_flat(found.result), *_named(operator, copied, names)])


def _written_only(
    operator: OpOverload, after: tuple[tuple[Any, ...], dict[str, Any]], result: Any
) -> list[str]:
    """Names of written operands that are not returned as well."""
    returned = {id(tensor) for tensor in tensors(result)}
    named = by_name(operator, *after)
    return [
        name
        for name in sorted(written_arguments(operator))
        if any(id(tensor) not in returned for tensor in tensors(named.get(name)))
    ]


def _named(
    operator: OpOverload, call: tuple[tuple[Any, ...], dict[str, Any]], names: list[str]
) -> list[Tensor]:
    named = by_name(operator, *call)
    return [tensor for name in names for tensor in tensors(named.get(name))]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [part for item in result for part in _flat(item)]
    return [] if result is None else [result]
