"""``with PerturbOperators():`` which calls blow rounding up, without any second machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.call.arguments import before_the_call, map_tensors, tensors
from msprobe_operators.call.operator import base_name, operator_name, written_arguments
from msprobe_operators.call.place import Place
from msprobe_operators.judge.check import check_call, why_not_testable
from msprobe_operators.judge.compare import Judgement, Status
from msprobe_operators.judge.growth import growth, last_bit
from msprobe_operators.judge.tolerance import factors, length_of_sums, roundoff
from msprobe_operators.live.gate import gate
from msprobe_operators.live.log import Log
from msprobe_operators.live.session import LiveMode
from msprobe_operators.report.results import Results
from msprobe_operators.rerun.perturb import perturbed, reordered
from msprobe_operators.rerun.reference import attempt, in_float64, random_state_kept, run_again

PERTURBATIONS = ("noise", "order", "precision", "cpu")
HANDLERS = ("check", "fix")


class PerturbOperators(LiveMode):
    """Runs each operator again a little differently and judges how its result moves.

    ``noise`` moves every floating operand in its last bit, ``order`` adds sums up backwards,
    ``precision`` computes in float64 and ``cpu`` on the CPU. A call fails when its result moves
    more than ``amplification`` times as far, relative to its largest element, as its operands
    were moved (noise), or beyond expected rounding (the others).

    With ``handler="fix"`` training goes on with the result of ``precision`` or ``cpu``, rounded to
    the original dtype, for calls that write to no operand: does the loss recover? Other
    parameters as in ``CompareWithCPU``.
    """

    def __init__(
        self,
        perturbation: str = "noise",
        handler: str = "check",
        amplification: float = 1000.0,
        enabled: bool = True,
        target_list: Iterable[str] | None = None,
        white_list: Iterable[str] | None = None,
        enable_ranks: Sequence[int] | None = None,
        should_log_to_file: bool = False,
        output_dir: str = "",
        start_step: int | None = None,
        end_step: int | None = None,
        sample: str | int | None = None,
    ) -> None:
        if perturbation not in PERTURBATIONS:
            raise ValueError(f"perturbation={perturbation!r} is none of {PERTURBATIONS}.")
        if handler not in HANDLERS:
            raise ValueError(f"handler={handler!r} is none of {HANDLERS}.")
        if handler == "fix" and perturbation not in ("precision", "cpu"):
            raise ValueError(
                f"handler='fix' keeps a better result, which {perturbation!r} does not give; "
                "choose perturbation='precision' or 'cpu'."
            )
        opened = gate(
            enabled, target_list, None, white_list, enable_ranks, start_step, end_step, sample
        )
        log = Log(should_log_to_file, output_dir, "perturbation") if opened.is_open_ever else None
        super().__init__(opened, log, output_dir, dump_error_data=False)
        if perturbation in ("noise", "order"):
            self.results = Results("rounding")
        self._perturbation = perturbation
        self._fixes = handler == "fix"
        self._most = amplification

    def look_at(
        self, operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place
    ) -> Any:
        if why_not_testable(operator, args, kwargs) is not None:
            return operator(*args, **kwargs)
        if not self.gate.is_due(operator, args, kwargs):
            return operator(*args, **kwargs)
        before = before_the_call(operator, args, kwargs)
        state = torch.get_rng_state()
        result = operator(*args, **kwargs)
        if not torch.equal(state, torch.get_rng_state()):
            return result
        better = None
        try:
            with random_state_kept():
                judgement = self._judge(operator, before, (args, kwargs), result)
                if self._fixes and not written_arguments(operator):
                    better = self._better(operator, before, result)
        except Exception as error:  # nothing that goes wrong here may reach training
            raised = fact("operator.raised", kind=type(error).__name__, error=str(error)[:200])
            judgement = Judgement(Status.UNTESTED, raised)
        self.results.add(operator_name(operator), place, judgement, self.gate.step)
        if judgement.status is Status.FAILED:
            name = place.full_name(operator_name(operator))
            self._say(f"[WARNING] {name}: {tell(judgement.reason or ())}")
        return result if better is None else better

    def _judge(self, operator: OpOverload, before: Any, after: Any, result: Any) -> Judgement:
        if self._perturbation in ("precision", "cpu"):
            reference = "float64" if self._perturbation == "precision" else "cpu"
            return check_call(operator, before, after, result, reference).judgement
        if written_arguments(operator):
            return Judgement(Status.UNTESTED, fact("operator.writes"))
        if self._perturbation == "noise":
            return amplification(operator, before, self._most)
        return order_dependence(operator, before, result)

    def _better(self, operator: OpOverload, before: Any, result: Any) -> Any:
        reference = "float64" if self._perturbation == "precision" else "cpu"
        found = run_again(operator, before[0], before[1], reference)
        if found.reason is not None:
            return None
        originals = list(tensors(result))
        again = list(tensors(found.result))
        if [t.shape for t in originals] != [t.shape for t in again]:
            return None
        rest = iter(zip(again, originals, strict=True))

        def rounded(_: Tensor) -> Tensor:
            other, original = next(rest)
            kept = other.to(device=original.device, dtype=original.dtype)
            return kept.as_strided_(original.size(), kept.stride()) if kept.dim() else kept

        return map_tensors(result, rounded)


def amplification(operator: OpOverload, call: tuple[Any, dict[str, Any]], most: float) -> Judgement:
    """How many times further the result moves than operands moved by their last bit.

    Both relative: the operands to each element, the results to their largest element (a gradient
    that is zero by nature beside others that are not is no alarm). ``times`` is that over
    ``most``. Computed in float64, so that it is the call's condition and not the rounding of a
    kernel.
    """
    relative = last_bit(call)
    if relative == 0.0:
        return Judgement(Status.UNTESTED, fact("operator.no_floating"))
    wide = in_float64(operator, *call)
    base = attempt(operator, *wide)
    moved = attempt(operator, *perturbed(*wide, relative))
    if base.reason or moved.reason:
        return Judgement(Status.UNTESTED, base.reason or moved.reason)
    worst = growth(tensors(base.result), tensors(moved.result), relative)
    status = Status.FAILED if worst > most else Status.PASSED
    reason = None
    if worst > most:
        zero = fact("operator.rounding_from_zero")
        reason = fact("operator.rounding_grows", times=worst) if isfinite(worst) else zero
    return Judgement(status, reason, worst * relative, worst / most)


def order_dependence(
    operator: OpOverload, call: tuple[Any, dict[str, Any]], result: Any
) -> Judgement:
    """How far the result moves when its sums are added up in another order."""
    args = reordered(operator, call[0])
    if args is None:
        return Judgement(Status.UNTESTED, fact("operator.no_order_of_sums"))
    again = attempt(operator, args, call[1])
    wide = attempt(operator, *in_float64(operator, *call))
    if again.reason or wide.reason:
        return Judgement(Status.UNTESTED, again.reason or wide.reason)
    [one], [other], [exact] = (list(tensors(x)) for x in (result, again.result, wide.result))
    name = base_name(operator)
    of_result, _ = factors(name, one.dtype, length_of_sums(name, call, result))
    allowed = 2 * of_result * roundoff(one.dtype) * float(exact.abs().max())
    change = float((one.double() - other.double()).abs().max())
    times = change / allowed if allowed else (inf if change else 0.0)
    status = Status.FAILED if times > 1.0 else Status.PASSED
    reason = fact("operator.order_changes", change=change) if times > 1.0 else None
    return Judgement(status, reason, change, times)
