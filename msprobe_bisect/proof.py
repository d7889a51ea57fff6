"""Is the suspect wrong itself, or given something wrong? It is run again as each run made it.

The same call is made on the CPU and in float64, with what this run gave it and with what the
reference gave it, and judged by the rounding of its types.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from msprobe_builder.operators.table import operator_of
from msprobe_operators.call.arguments import tensors
from msprobe_operators.dump.calls import RecordedCall, recorded_calls
from msprobe_operators.dump.check import CheckOptions, CheckRow, check_recorded, recorded_results
from msprobe_operators.dump.operands import CannotRebuildError, Operands, operands
from msprobe_operators.dump.run import find_dump, source_of

_MOST_ROUNDING = 0.05  # share by which half precision sets results of two operators apart


class Proof(str, Enum):
    """What the experiment tells."""

    OPERATOR = "operator"  # wrong with this run's own inputs; the reference's call is right
    REFERENCE = "reference"  # the other way round
    BOTH = "both"  # wrong in both runs
    ARGUMENT = "argument"  # right in both, called with other arguments
    GIVEN = "given"  # right in both, given other tensors
    ROUNDING = "rounding"  # right in both, given the same: the difference is rounding
    NONE = "none"  # it could not be made


@dataclass(frozen=True)
class Proven:
    """An experiment on one call; ``times`` is the error in units of what rounding allows."""

    proof: Proof
    name: str
    direction: str
    times: float = 0.0
    why: str = ""
    call: RecordedCall | None = None
    dump: Path | None = None  # of the side that is wrong

    @property
    def sentence(self) -> str:
        call = f"{self.name}.{self.direction}"
        told = {
            Proof.OPERATOR: (
                f"Proven: {call} is wrong itself. With the inputs of the debug run it is off by"
                f" {self.times:,.0f} times what rounding allows, by float64 on the CPU; with its"
                " own inputs the reference's call is right."
            ),
            Proof.REFERENCE: (
                f"Proven: {call} is wrong in the reference, by {self.times:,.0f} times what"
                " rounding allows; the debug run's call is right."
            ),
            Proof.BOTH: (
                f"{call} is wrong in both runs, by {self.times:,.0f} times what rounding allows."
            ),
            Proof.ARGUMENT: (
                f"Proven: {call} is called otherwise. It is right for what each run gives it;"
                f" {self.why}."
            ),
            Proof.GIVEN: (
                f"Proven: {call} is given something else. It is right for what each run gives it;"
                f" {self.why}."
            ),
            Proof.ROUNDING: f"{call} is right in both runs; what differs is rounding.",
            Proof.NONE: f"No experiment was made with {call}: {self.why}",
        }
        return told[self.proof]


def prove(names: tuple[str, str | None], direction: str, npu: Path, bench: Path) -> Proven:
    """Run a call of two ranks' dumps of tensors again.

    ``names`` are those that it has in both, without direction; None where the reference makes no
    such call. BuildError where a dump is damaged.
    """
    name, other = names
    if other is None:
        why = "the reference makes no call that it is compared with."
        return Proven(Proof.NONE, name, direction, why=why)
    ours, theirs = _call(npu, name), _call(bench, other)
    if ours is None or theirs is None:
        where = "the debug run" if ours is None else "the reference"
        return Proven(Proof.NONE, name, direction, why=f"{where} has no record of it.")
    rows = [_row(call, direction, folder) for call, folder in ((ours, npu), (theirs, bench))]
    untested = next((row for row in rows if row.status == "not tested"), None)
    if untested is not None:
        return Proven(Proof.NONE, name, direction, why=untested.sentence)
    wrong = [row.status == "failed" for row in rows]
    times = max(row.times for row in rows)
    if wrong[0]:
        proof = Proof.BOTH if wrong[1] else Proof.OPERATOR
        return Proven(proof, name, direction, times, call=ours, dump=npu)
    if wrong[1]:
        return Proven(Proof.REFERENCE, name, direction, times, call=theirs, dump=bench)
    return _of_right_calls(name, direction, ours, theirs, npu, bench)


def _of_right_calls(
    name: str, direction: str, ours: RecordedCall, theirs: RecordedCall, npu: Path, bench: Path
) -> Proven:
    if _operator(ours) != _operator(theirs):
        return _of_operators(name, direction, ours, theirs, npu, bench)
    try:
        given = [_given(call, folder) for call, folder in ((ours, npu), (theirs, bench))]
    except CannotRebuildError as error:
        return Proven(Proof.NONE, name, direction, why=str(error))
    one, other = (_plain(each) for each in given)
    if one != other:
        return Proven(Proof.ARGUMENT, name, direction, why=_differing(one, other))
    pairs = list(zip(*(tensors((each.args, each.kwargs)) for each in given), strict=False))
    apart = [number for number, (left, right) in enumerate(pairs) if not _alike(left, right)]
    if apart:
        numbers = ", ".join(map(str, apart))
        return Proven(Proof.GIVEN, name, direction, why=f"operand {numbers} differs")
    return Proven(Proof.ROUNDING, name, direction)


def _of_operators(
    name: str, direction: str, ours: RecordedCall, theirs: RecordedCall, npu: Path, bench: Path
) -> Proven:
    """Two operators take other arguments by nature; only what they make can be held together."""
    sides = (ours, npu), (theirs, bench)
    made = [recorded_results(call, _options(folder)) or [] for call, folder in sides]
    pairs = list(zip(*made, strict=False))
    if (
        direction == "forward"
        and pairs
        and all(_alike(one, other, _MOST_ROUNDING) for one, other in pairs)
    ):
        return Proven(Proof.ROUNDING, name, direction)
    why = (
        f"the reference computes it by {theirs.name}, which takes other arguments;"
        " each is right for what it is given."
    )
    return Proven(Proof.NONE, name, direction, why=why)


def _operator(call: RecordedCall) -> str:
    return operator_of(call.in_torch.rpartition(".")[0]).name


def _call(folder: Path, name: str) -> RecordedCall | None:
    return next((one for one in recorded_calls(find_dump(folder)) if one.name == name), None)


def _row(call: RecordedCall, direction: str, folder: Path) -> CheckRow:
    rows = check_recorded(call, _options(folder))
    return next((row for row in rows if row.direction == direction), rows[0])


def _options(folder: Path) -> CheckOptions:
    return CheckOptions(source_of(folder / "dump.json"))


def _given(call: RecordedCall, folder: Path) -> Operands:
    return operands(f"{call.name}.forward", call.record, source_of(folder / "dump.json"))


def _plain(given: Operands) -> list[Any]:
    """Arguments with their tensors' shapes in place of the tensors.

    A type is what the call is given: another one is no other way to call it.
    """
    found: list[Any] = []

    def walk(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return ("tensor", tuple(value.shape), value.is_floating_point())
        if isinstance(value, list | tuple):
            return [walk(one) for one in value]
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        return value

    found += [(str(number), walk(one)) for number, one in enumerate(given.args)]
    found += [(key, walk(one)) for key, one in sorted(given.kwargs.items())]
    return found


def _differing(ours: list[Any], theirs: list[Any]) -> str:
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            return f"argument {one[0]} is {one[1]!r}, in the reference {other[1]!r}"
    return f"it has {len(ours)} arguments, in the reference {len(theirs)}"


def _alike(one: torch.Tensor, other: torch.Tensor, most: float = 1.0) -> bool:
    """Whether they are apart by rounding at most, that of the narrower type, and by ``most``."""
    if one.shape != other.shape:
        return False
    if not (one.is_floating_point() and other.is_floating_point()):
        return bool(torch.equal(one.detach(), other.detach()))
    left, right = one.detach().double(), other.detach().double()
    size = float(right.norm())
    unit = max(torch.finfo(each.dtype).eps for each in (one, other))
    return float((left - right).norm()) <= min(64 * unit, most) * max(size, 1e-300)
