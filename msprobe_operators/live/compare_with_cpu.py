"""``with CompareWithCPU():`` every operator of a training step against a second run of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.call.arguments import before_the_call
from msprobe_operators.call.operator import operator_name
from msprobe_operators.call.place import Place
from msprobe_operators.judge.check import Check, check_by, why_not_testable
from msprobe_operators.judge.compare import Judgement, Limits, Status
from msprobe_operators.live.gate import gate
from msprobe_operators.live.log import Log
from msprobe_operators.live.session import Call, LiveMode
from msprobe_operators.rerun.reference import REFERENCES, random_state_kept

_TEST = "CompareWithCPU"


class CompareWithCPU(LiveMode):
    """Runs each operator twice, forward, backward and in the optimizer, and judges the difference.

    Training sees the first run only: results, operands written in place, aliases and random
    state are those of a run without it. Calls that draw random numbers, views, communication and
    calls that the reference cannot do are counted as not tested, never as failed.

    Args:
        enabled: False makes it do nothing.
        atol, rtol: a fixed tolerance |d - r| <= atol + rtol · |r|; when both are None the
            expected rounding of the operator's dtype, kind and length of sums is the limit.
        target_list: only these operators, such as ``"torch.ops.aten.addmm"``; ``target_op`` is
            another spelling.
        white_list: not these operators.
        dump_error_data: save the inputs and outputs of the first failure in ``output_dir`` and
            end the run with OperatorFailedError.
        verbose: a line for every call; otherwise for failures alone.
        enable_ranks: only on these ranks.
        should_log_to_file: lines go to ``output_dir/compare_result[_rankR].txt``.
        start_step, end_step: only while start_step <= steps done < end_step; see ``step``.
        reference: ``"cpu"`` (the same dtype on the CPU), ``"float64"`` (the same device),
            ``"decomposition"`` (float64 by a composition of other operators), or None: the CPU for
            tensors of other devices; for tensors on the CPU float64, and decomposition as well
            where there is one.
        sample: None for every call, ``"signature"`` for one call of each operator, shapes and
            dtypes, k for every k-th call.
    """

    def __init__(
        self,
        enabled: bool = True,
        atol: float | None = None,
        rtol: float | None = None,
        target_list: Iterable[str] | None = None,
        white_list: Iterable[str] | None = None,
        dump_error_data: bool = False,
        verbose: bool = True,
        enable_ranks: Sequence[int] | None = None,
        should_log_to_file: bool = False,
        output_dir: str = "",
        start_step: int | None = None,
        end_step: int | None = None,
        *,
        target_op: Iterable[str] | None = None,
        reference: str | None = None,
        sample: str | int | None = None,
    ) -> None:
        if reference is not None and reference not in REFERENCES:
            raise ValueError(f"reference={reference!r} is none of {', '.join(REFERENCES)}.")
        opened = gate(
            enabled, target_list, target_op, white_list, enable_ranks, start_step, end_step, sample
        )
        log = Log(should_log_to_file, output_dir, "compare_result") if opened.is_open_ever else None
        super().__init__(opened, log, output_dir, dump_error_data, verbose)
        self._reference = reference
        self._limits = limits(atol, rtol)

    def look_at(
        self, operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place
    ) -> Any:
        if not self.gate.is_due(operator, args, kwargs):
            return operator(*args, **kwargs)
        name = place.full_name(operator_name(operator))
        self._say_if_verbose(f"{name} starts to run ...")
        reason = why_not_testable(operator, args, kwargs)
        if reason is not None:
            result = operator(*args, **kwargs)
            self._count(operator, place, Judgement(Status.UNTESTED, reason))
            self._say_if_verbose(f"{name} is not tested: {tell(reason)}")
            return result
        before = before_the_call(operator, args, kwargs)
        state = torch.get_rng_state()
        result = operator(*args, **kwargs)
        if not torch.equal(state, torch.get_rng_state()):
            drawn = Judgement(Status.UNTESTED, fact("operator.draws"))
            self._count(operator, place, drawn)
            self._say_if_verbose(f"{name} is not tested: {tell(drawn.reason or ())}")
            return result
        try:
            with random_state_kept():
                check = check_by(
                    operator, before, (args, kwargs), result, self._reference, self._limits
                )
        except Exception as error:  # nothing that goes wrong here may reach training
            text = " ".join(str(error).split())[:200]
            raised = fact("operator.raised", kind=type(error).__name__, error=text)
            check = Check(Judgement(Status.UNTESTED, raised))
        self._count(operator, place, check.judgement)
        if check.note is not None:
            self._say_if_verbose(tell(check.note))
        if check.judgement.status is Status.FAILED:
            self._tell(name, check, before)
            if self._dump_error_data:
                self._stop_at(operator, before, result, place, state)
        elif check.judgement.status is Status.UNTESTED:
            self._say_if_verbose(f"{name} is not tested: {tell(check.judgement.reason or ())}")
        else:
            self._say_if_verbose(f"{name} succeeds to pass {_TEST} test")
        return result

    def _count(self, operator: OpOverload, place: Place, judgement: Judgement) -> None:
        self.results.add(operator_name(operator), place, judgement, self.gate.step)

    def _tell(self, name: str, check: Check, before: Call) -> None:
        judgement = check.judgement
        reason = judgement.reason
        if judgement.times not in (0.0, float("inf")):
            place = str(judgement.place)
            reason = fact("operator.size_at", reason=reason, times=judgement.times, place=place)
        if self._log is not None:
            said = tell(reason or ())
            self._log.failure(
                name, _TEST, said, before, check.results, check.references, verbose=self._verbose
            )


def limits(atol: float | None, rtol: float | None) -> Limits | None:
    """A fixed tolerance when one of the two is given."""
    for key, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not value >= 0:
            raise ValueError(f"{key}={value!r} must be a number that is not negative.")
    return None if atol is None and rtol is None else Limits(atol or 0.0, rtol or 0.0)
