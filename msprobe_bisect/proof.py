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

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.operators.table import operator_of
from msprobe_operators.call.apart import BOUNDS, run_apart
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
    COMPILER = "compiler"  # a compiled region departs from eager, in this run alone
    NONE = "none"  # it could not be made


@dataclass(frozen=True)
class Proven:
    """An experiment on one call; ``times`` is the error in units of what rounding allows."""

    proof: Proof
    name: str
    direction: str
    times: float = 0.0
    why: Fact | str = ""
    call: RecordedCall | None = None
    dump: Path | None = None  # of the side that is wrong

    @property
    def told(self) -> Fact:
        """What it tells."""
        call, times = f"{self.name}.{self.direction}", round(self.times)
        return {
            Proof.OPERATOR: fact("bisect.wrong_itself", call=call, times=times),
            Proof.REFERENCE: fact("bisect.wrong_in_reference", call=call, times=times),
            Proof.BOTH: fact("bisect.wrong_in_both", call=call, times=times),
            Proof.ARGUMENT: fact("bisect.called_otherwise", call=call, why=self.why),
            Proof.GIVEN: fact("bisect.given_otherwise", call=call, why=self.why),
            Proof.ROUNDING: fact("bisect.right_in_both", call=call),
            Proof.COMPILER: fact("bisect.wrong_compiled", what=self.why),
            Proof.NONE: fact("bisect.no_experiment", call=call, why=self.why),
        }[self.proof]


def prove(names: tuple[str, str | None], direction: str, npu: Path, bench: Path) -> Proven:
    """Run a call of two ranks' dumps of tensors again.

    ``names`` are those that it has in both, without direction; None where the reference makes no
    such call. BuildError where a dump is damaged. The calls run in a process of their own.
    """
    found = run_apart(_proven, (names, direction, npu, bench), "cpu", BOUNDS)
    if isinstance(found, Fact):
        return Proven(Proof.NONE, names[0], direction, why=found)
    return found


def _proven(given: tuple[tuple[str, str | None], str, Path, Path], _device: str) -> Proven:
    names, direction, npu, bench = given
    name, other = names
    if other is None:
        return Proven(Proof.NONE, name, direction, why=fact("bisect.without_partner"))
    ours, theirs = _call(npu, name), _call(bench, other)
    if ours is None or theirs is None:
        side = fact("this_run" if ours is None else "the_reference")
        return Proven(Proof.NONE, name, direction, why=fact("bisect.not_recorded", side=side))
    rows = [_row(call, direction, folder) for call, folder in ((ours, npu), (theirs, bench))]
    untested = next((row for row in rows if row.status == "not tested"), None)
    if untested is not None:
        return Proven(Proof.NONE, name, direction, why=untested.said)
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
        return Proven(Proof.NONE, name, direction, why=error.reason)
    one, other = (_plain(each) for each in given)
    if one != other:
        return Proven(Proof.ARGUMENT, name, direction, why=_differing(one, other))
    pairs = list(zip(*(tensors((each.args, each.kwargs)) for each in given), strict=False))
    apart = [number for number, (left, right) in enumerate(pairs) if not _alike(left, right)]
    if apart:
        why = fact("bisect.operands", numbers=apart)
        return Proven(Proof.GIVEN, name, direction, why=why)
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
    why = fact("bisect.other_operator", node=theirs.name)
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


def _differing(ours: list[Any], theirs: list[Any]) -> Fact:
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            values = repr(one[1]), repr(other[1])
            return fact("bisect.argument", name=one[0], debug=values[0], reference=values[1])
    return fact("bisect.arguments", debug=len(ours), reference=len(theirs))


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
