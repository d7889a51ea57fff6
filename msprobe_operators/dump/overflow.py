"""``msprobe-operators overflow``: is a recorded overflow due to operands or to the device?"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.dump.calls import RecordedCall, function_of, tensor_leaves
from msprobe_operators.dump.operands import CannotRebuildError, Source, operands
from msprobe_operators.dump.rerun import bytes_of_result, run_call


@dataclass(frozen=True)
class OverflowRow:
    """A call whose recorded result is not finite though its operands are.

    ``kind`` is ``expected`` (the CPU overflows as well), ``device`` (the CPU's result is finite) or
    ``not tested``.
    """

    name: str
    kind: str
    operands: str
    reason: Fact

    @property
    def said(self) -> Fact:
        """What is said of it."""
        if self.kind == "device":
            return fact("operator.overflows_on_device", call=self.name, reason=self.reason)
        if self.kind == "expected":
            return fact("operator.overflows_anywhere", call=self.name, reason=self.reason)
        return fact("operator.overflow_untested", call=self.name, reason=self.reason)

    @property
    def sentence(self) -> str:
        """The same in words."""
        return tell(self.said)


def check_overflow(call: RecordedCall, source: Source) -> OverflowRow | None:
    """What kind of overflow a call is; None when it is none or only hands on what it was given."""
    record = call.record
    if not _is_bad(record.get("output")):
        return None
    if _is_bad(record.get("input_args")) or _is_bad(record.get("input_kwargs")):
        return None
    name = f"{call.name}.forward"
    function = function_of(call)
    if isinstance(function, Fact):
        return OverflowRow(name, "not tested", "", function)
    try:
        given = operands(name, record, source)
        if bytes_of_result(function, given.args, given.kwargs) > source.most_bytes:
            raise CannotRebuildError(fact("operator.too_much_memory"))
        outcome = run_call(function, given.args, given.kwargs, device=torch.device("cpu"))
    except CannotRebuildError as why:
        return OverflowRow(name, "not tested", "", why.reason)
    except Exception as error:  # kernels and hostile records raise anything
        text = " ".join(str(error).split())[:200] or type(error).__name__
        return OverflowRow(name, "not tested", "", fact("operator.does_not_run", error=text))
    kind = "real" if given.is_real else "made up"
    count = sum(int((~torch.isfinite(t)).sum()) for t in outcome.results if _is_floating(t))
    if count:
        return OverflowRow(name, "expected", kind, fact("operator.cpu_overflows", count=count))
    if not given.is_real:
        return OverflowRow(name, "not tested", kind, fact("operator.cpu_finite_made_up"))
    return OverflowRow(name, "device", kind, fact("operator.cpu_finite"))


def has_numbers(call: RecordedCall) -> bool:
    """Whether the record of a call tells how large its results are."""
    return any("Max" in leaf and "Min" in leaf for leaf in tensor_leaves(call.record.get("output")))


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _is_bad(value: Any) -> bool:
    """Whether a recorded tensor in it holds NaN or infinity, by its largest and smallest."""
    return any(
        isinstance(leaf.get(key), float) and not isfinite(leaf[key])
        for leaf in tensor_leaves(value)
        for key in ("Max", "Min")
    )
