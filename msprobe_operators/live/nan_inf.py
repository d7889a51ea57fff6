"""``with NanInfTracker():`` the first operators that turn finite operands into NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from msprobe_builder.facts.fact import fact
from msprobe_operators.call.arguments import before_the_call, tensors, why_unreadable
from msprobe_operators.call.operator import is_uninitialised, is_view, operator_name
from msprobe_operators.call.place import Place
from msprobe_operators.judge.compare import Judgement, Status
from msprobe_operators.live.gate import gate
from msprobe_operators.live.log import Log, summary
from msprobe_operators.live.session import LiveMode
from msprobe_operators.report.results import Results


class NanInfTracker(LiveMode):
    """Looks for NaN and infinity in what operators return, on the tensors' own device.

    A call whose operands are finite and whose result is not is where they come from: it counts
    as failed. A call that hands on what it was given is logged with ``[WARNING]`` and counts as
    passed. Parameters as in ``CompareWithCPU``; the file is ``nan_inf_report[_rankR].txt``.
    """

    def __init__(
        self,
        enabled: bool = True,
        target_list: Iterable[str] | None = None,
        white_list: Iterable[str] | None = None,
        enable_ranks: Sequence[int] | None = None,
        should_log_to_file: bool = False,
        output_dir: str = "",
        dump_error_data: bool = False,
        start_step: int | None = None,
        end_step: int | None = None,
        *,
        target_op: Iterable[str] | None = None,
    ) -> None:
        opened = gate(
            enabled, target_list, target_op, white_list, enable_ranks, start_step, end_step
        )
        log = Log(should_log_to_file, output_dir, "nan_inf_report") if opened.is_open_ever else None
        super().__init__(opened, log, output_dir, dump_error_data)
        self.results = Results("bad values")

    def look_at(
        self, operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place
    ) -> Any:
        if is_uninitialised(operator) or is_view(operator):
            return operator(*args, **kwargs)
        before = before_the_call(operator, args, kwargs)
        state = torch.get_rng_state() if self._dump_error_data else None
        result = operator(*args, **kwargs)
        if why_unreadable((args, kwargs, result)) is not None or not _is_bad(result):
            return result
        name = place.full_name(operator_name(operator))
        is_origin = not _is_bad(before)
        reason = fact("operator.finite_to_bad") if is_origin else None
        status = Status.FAILED if is_origin else Status.PASSED
        judgement = Judgement(status, reason)
        self.results.add(operator_name(operator), place, judgement, self.gate.step)
        self._say(f"{name} {'makes' if is_origin else 'hands on'} NaN or infinity")
        for key, value in [*enumerate(before[0]), *before[1].items()]:
            self._say(f"  input {key}: {summary(value, counts=True)}")
        self._say(f"  output: {summary(result, counts=True)}")
        if is_origin and self._dump_error_data:
            self._stop_at(operator, before, result, place, state)
        return result


def _is_bad(value: Any) -> bool:
    return any(_is_bad_tensor(tensor) for tensor in tensors(value))


def _is_bad_tensor(tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return False
    if tensor.element_size() == 1 and not tensor.is_complex():
        tensor = tensor.float()
    # One pass and one answer from the device: 0 · x is NaN for NaN and infinity, else 0.
    return not bool(torch.isfinite(tensor.detach()).all())
