"""Dumps of several ranks whose tensors are arrays, with their sketches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.sketch.definition import sketch_of
from msprobe_builder.sketch.layout import (
    NAME,
    PLACE,
    PLACES,
    ROWS,
    packed_block,
    packed_head,
    rows_of,
)
from tests.builder.running import run_here
from tests.builder.small_dumps import Record, number, write_dump

Floats = NDArray[np.float32]
_SECTIONS = {"input_args": 0, "input_kwargs": 0, "output": 1, "parameters": 2}


class Typed(NamedTuple):
    """Numbers in a type that numpy may lack, each of which it can hold."""

    numbers: Floats
    dtype: str = "float32"


def rounded(numbers: Any, dtype: str) -> Floats:
    """The nearest numbers that a type holds."""
    exact = np.asarray(numbers, dtype=np.float32)
    if dtype == "float16":
        return exact.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = exact.view(np.uint32).astype(np.uint64)
        bits += 0x7FFF + (bits >> 16 & 1)
        return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return exact


class Call(NamedTuple):
    """A record: what goes in by place and by name, what comes out, parameters of a module."""

    inputs: Sequence[Any] = ()
    output: Sequence[Any] = ()
    keywords: Mapping[str, Any] = {}
    parameters: Mapping[str, Typed] = {}


def reduction(op: str) -> Record:
    """The record of an operation."""
    return {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{op}"}


def verdict_of(
    folder: Path, ranks: Sequence[Mapping[str, Call]], *, has_sketches: bool = True
) -> Verdict:
    """What is said of one step of some ranks; those that were there are added to."""
    write_ranks(folder / "run", ranks, has_sketches=has_sketches)
    return verdict_on(folder, folder / "run")


def verdict_on(folder: Path, step: Path) -> Verdict:
    """What is said of a step that was recorded; the file in ``folder`` is added to."""
    compare = folder / "compare.json"
    compare.write_text(json.dumps({"npu_path": str(step)}))
    databases = list((folder / "out").glob("*.vis.db"))
    to = ["--append", str(databases[0])] if databases else ["-o", str(folder / "out")]
    done = run_here(["-i", str(compare), *to, "--workers", "1"])
    assert done.returncode == 0, done.stderr
    [database] = (folder / "out").glob("*.vis.db")
    with opened(database) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def write_ranks(
    folder: Path, ranks: Sequence[Mapping[str, Call]], *, has_sketches: bool = True
) -> None:
    """The dumps of some ranks, those that are there left as they are."""
    for rank, calls in enumerate(ranks):
        directory = folder / "step0" / f"rank{rank}"
        if not directory.exists():
            _write(directory, calls, has_sketches=has_sketches)


def counts_of(verdict: Verdict, code: str = "held") -> dict[str, int]:
    """How much was checked, or what ``code`` says, by kind."""
    found = [one for one in verdict.said if one.code == code]
    checks: Any = found[0]["checks"] if found else ()
    return {one.code.removeprefix("checked."): one["count"] for one in checks}


def _write(directory: Path, calls: Mapping[str, Call], *, has_sketches: bool) -> None:
    arrays: list[Floats] = []
    places: list[tuple[int, int, int, int]] = []
    data = {}
    for record, (name, call) in enumerate(calls.items()):
        given: dict[str, Any] = {
            "input_args": list(call.inputs),
            "input_kwargs": dict(call.keywords),
            "output": list(call.output),
        }
        if call.parameters:
            given["parameters"] = dict(call.parameters)
        positions = [0, 0, 0]

        def shown(value: Any, section: int, record: int = record, at: Any = positions) -> Any:
            if isinstance(value, list):
                return [shown(one, section) for one in value]
            if isinstance(value, dict) and any(isinstance(one, Typed) for one in value.values()):
                return {
                    key: shown(one, section) if isinstance(one, Typed) else one
                    for key, one in value.items()
                }
            if not isinstance(value, Typed):
                return value if isinstance(value, dict) else number(value)
            places.append((record, section, at[section], len(arrays)))
            at[section] += 1
            arrays.append(value.numbers)
            return _described(value)

        data[name] = {
            key: {name: shown(one, _SECTIONS[key]) for name, one in values.items()}
            if isinstance(values, dict)
            else [shown(one, _SECTIONS[key]) for one in values]
            for key, values in given.items()
        }
    write_dump(directory, data)
    if has_sketches:
        of = {n: row for row, n in enumerate(n for n, one in enumerate(arrays) if one.size)}
        places = [(*one[:3], of[one[3]]) for one in places if one[3] in of]
        sketches = [sketch_of(one) for one in arrays if one.size]
        left_out = [[one[at] for one in sketches] for at in (1, 2)]
        rows = rows_of(np.array([one.numbers for one in sketches]), *left_out)
        content = packed_head() + packed_block(ROWS, 0, rows.tobytes())
        content += packed_block(PLACES, 0, np.array(places, PLACE).tobytes())
        (directory / NAME).write_bytes(content)


def _described(value: Typed) -> Record:
    numbers = value.numbers.astype(np.float64)
    head = {
        "type": "torch.Tensor",
        "dtype": f"torch.{value.dtype}",
        "shape": list(numbers.shape),
    }
    if not numbers.size:
        return {**head, "Max": None, "Min": None, "Mean": None, "Norm": None}
    return {
        **head,
        "Max": float(numbers.max()),
        "Min": float(numbers.min()),
        "Mean": float(numbers.mean()),
        "Norm": float(np.sqrt((numbers**2).sum())),
    }
