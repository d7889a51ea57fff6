"""Where rounding may hide a fault, each call of a step is run again by itself.

Two runs in half precision grow apart from call to call, so that comparing them shows little.
A call that is run again with what it was given, in float64, has its own rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_bisect.runs import SIDES
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.files.regular import read_bytes
from msprobe_builder.files.text_files import parse_appended
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
        return len(self.left_out) <= _MOST_LEFT_OUT * (self.right + len(self.left_out))


def all_again(dumps: Mapping[str, Path], step: int | None, folder: Path) -> Again:
    """Run each call of a step again, of dumps of tensors by side.

    What was run is kept in ``folder`` and not run another time. BuildError where a dump is damaged.
    """
    right, wrong, left_out = 0, [], []
    for side in SIDES:
        for place in sorted(dumps[side].glob(f"step{step}/rank*/dump.json")):
            rank = int(place.parent.name.removeprefix("rank") or 0)
            options = CheckOptions(source_of(place))
            journal = folder / f"again_{side}_{place.parent.name}.jsonl"
            for row in check_dump(place, options, devices=["cpu"], journal=journal):
                if row.status == Status.PASSED.value:
                    right += 1
                elif row.status == Status.FAILED.value:
                    wrong.append((row.name, row.direction, rank, side))
                else:
                    left_out.append(f"{row.name}.{row.direction}")
            left_out += _without_calls(place)
    return Again(right, tuple(wrong), tuple(dict.fromkeys(left_out)))


def _without_calls(dump: Path) -> Iterator[str]:
    """Modules that show no call inside and put out something else than they are given."""
    parents = parse_appended(read_bytes(dump.parent / "construct.json", LARGEST_JSON))[0]
    shown = set(parents.values())
    for name, record in DumpReader(dump):
        is_module = name.startswith("Module.") and ".forward." in name
        if is_module and name not in shown and isinstance(record, dict):
            given = [_numbers(one) for one in _leaves(record.get("input_args"))]
            if any(_numbers(one) not in given for one in _leaves(record.get("output"))):
                yield name


def _leaves(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and "shape" in value:
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def _numbers(leaf: Mapping[str, Any]) -> tuple[str, ...]:
    """What was recorded of a tensor, to be told from another one."""
    return tuple(str(leaf.get(key)) for key in ("shape", "dtype", "Max", "Min", "Mean", "Norm"))
