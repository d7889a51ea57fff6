"""Where rounding may hide a fault, each call of a step is run again by itself.

Two runs in half precision grow apart from call to call, so that comparing them shows little.
A call that is run again with what it was given, in float64, has its own rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe_bisect.runs import SIDES, Budget
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.files.regular import read_bytes
from msprobe_builder.files.text_files import parse_appended
from msprobe_operators.call.apart import BOUNDS
from msprobe_operators.dump.calls import tensor_leaves
from msprobe_operators.dump.check import CheckOptions
from msprobe_operators.dump.run import check_dump, source_of
from msprobe_operators.judge.compare import Status

# As a verdict does: it calls nothing clean of which more than a third may hide a fault.
_MOST_LEFT_OUT = 1 / 3


@dataclass(frozen=True)
class Again:
    """What running all calls of a step again has told, of both runs and all ranks.

    ``right`` counts directions of calls; ``wrong`` names each that is not, with its direction,
    rank and side, in the order of the runs; ``left_out`` what could not be run, and modules that
    show no calls.
    """

    right: int
    wrong: tuple[tuple[str, str, int, str], ...]
    left_out: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        """Whether so much was run that being right says something of the step."""
        left_out = len(self.left_out)
        return self.right > 0 and left_out <= _MOST_LEFT_OUT * (self.right + left_out)


def all_again(dumps: Mapping[str, Path], step: int, folder: Path, budget: Budget) -> Again:
    """Run each call of a step again, of dumps of tensors by side.

    What was run is kept in ``folder`` and not run another time. BuildError where a dump is damaged,
    or a side has nothing of the step; SpentError.
    """
    right, wrong, left_out = 0, [], []
    for side in SIDES:
        found = discover(dumps[side], side).directories
        ranks = {at.rank: Path(str(where)) for at, where in found.items() if at.step == step}
        if not ranks:
            raise BuildError(f"{dumps[side]} holds nothing of step {step}; record it again.")
        for rank, place in ranks.items():
            dump = place / "dump.json"
            left = BOUNDS.total if budget.left is None else budget.left
            bounds = replace(BOUNDS, total=min(BOUNDS.total, max(left, 0.0)))
            for row in check_dump(
                dump,
                CheckOptions(source_of(dump)),
                devices=["cpu"],
                journal=folder / f"again_{side}_{rank}.jsonl",
                bounds=bounds,
            ):
                if row.status == Status.PASSED.value:
                    right += 1
                elif row.status == Status.FAILED.value:
                    wrong.append((row.name, row.direction, rank, side))
                else:
                    left_out.append(f"{row.name}.{row.direction}")
            budget.require_time()  # what it did not suffice for was left out
            left_out += _without_calls(dump)
    return Again(right, tuple(wrong), tuple(dict.fromkeys(left_out)))


def showing_calls(rank: Path) -> set[str | None]:
    """Names of what holds something recorded, of the dump of a rank."""
    return set(parse_appended(read_bytes(rank / "construct.json", LARGEST_JSON))[0].values())


def _without_calls(dump: Path) -> Iterator[str]:
    """Modules that show no call inside and put out something else than they are given."""
    shown = showing_calls(dump.parent)
    for name, record in DumpReader(dump):
        is_module = name.startswith("Module.") and ".forward." in name
        if is_module and name not in shown and isinstance(record, dict):
            given = [_numbers(one) for one in tensor_leaves(record.get("input_args"))]
            if any(_numbers(one) not in given for one in tensor_leaves(record.get("output"))):
                yield name


def _numbers(leaf: Mapping[str, Any]) -> tuple[str, ...]:
    """What was recorded of a tensor, to be told from another one."""
    return tuple(str(leaf.get(key)) for key in ("shape", "dtype", "Max", "Min", "Mean", "Norm"))
