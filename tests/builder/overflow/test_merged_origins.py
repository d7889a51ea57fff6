"""Where NaN began in a model that was merged from ranks: the call, and which of them made it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.not_finite import read_beginnings
from msprobe_builder.database.read.verdict import read_verdict
from msprobe_builder.facts.wording import tell
from msprobe_builder.pipeline.origins import origin_of
from tests.builder.running import run_here

SUM = "Distributed.all_reduce"
SOFTMAX = "Functional.softmax.1.forward"
DROPOUT = "Functional.dropout.2.forward"
GIVEN = ("input_args", "input_kwargs", "input")
LAYOUTS = {
    "megatron_tp2pp1": {"rank_size": 2, "tp": 2, "pp": 1},
    "megatron_tp1pp2": {"rank_size": 2, "tp": 1, "pp": 2},
}


def spoil(record: Any) -> None:
    """Every floating-point tensor of a part of a record is NaN."""
    if isinstance(record, list):
        for one in record:
            spoil(one)
    elif isinstance(record, dict) and "float" in str(record.get("dtype")):
        record |= dict.fromkeys(("Max", "Min", "Mean", "Norm"), math.nan)
    elif isinstance(record, dict):
        for one in record.values():
            spoil(one)


def around(folder: Path, call: str) -> Iterator[str]:
    """The modules in which a call is made."""
    places = json.loads((folder / "construct.json").read_text())
    while (above := places.get(call)) is not None:
        call = above[0] if isinstance(above, list) else above
        yield call


def plant(run: Path, call: str, ranks: tuple[int, ...]) -> None:
    """These ranks put out NaN in the call, and work with it; others from the next sum on."""
    makers = [json.loads((run / f"rank{rank}" / "dump.json").read_text()) for rank in ranks]
    names = list(makers[0]["data"])
    later = names[names.index(call) :]
    joined = next((one for one in later if one.startswith(SUM)), None)
    for folder in sorted(run.glob("rank*")):
        path = folder / "dump.json"
        content = json.loads(path.read_text())
        is_maker = int(folder.name.removeprefix("rank")) in ranks
        first = call if is_maker else joined
        data = content["data"]
        if first is not None and first in data:
            outer = {first, *around(folder, first)}
            for name in list(data)[list(data).index(first) :]:
                for section, part in data[name].items():
                    if name not in outer or section not in GIVEN:
                        spoil(part)
        path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("layout", "call", "ranks"),
    [
        ("megatron_tp2pp1", SOFTMAX, (0,)),
        ("megatron_tp2pp1", SOFTMAX, (1,)),
        ("megatron_tp2pp1", SOFTMAX, (0, 1)),
        ("megatron_tp2pp1", DROPOUT, (1,)),  # a replica that is not shown
        ("megatron_tp2pp1", "Tensor.__add__.3.forward", (1,)),
        ("megatron_tp1pp2", SOFTMAX, (0,)),
        ("megatron_tp1pp2", SOFTMAX, (1,)),
    ],
)
def test_the_rank_that_made_it_is_said(
    layout: str, call: str, ranks: tuple[int, ...], dumps: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run" / "step0"
    shutil.copytree(dumps / layout / "step0", run)
    plant(run, call, ranks)
    settings = {"npu_path": str(run), "parallel_merge": {"npu": LAYOUTS[layout]}}
    (tmp_path / "compare.json").write_text(json.dumps(settings))
    words = ["-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out"), "-oc"]
    done = run_here([*words, "--workers", "1"])
    assert done.returncode == 0, done.stderr
    [database] = (tmp_path / "out").glob("*.vis.db")
    with opened(database) as connection:
        origin = origin_of(read_beginnings(connection))
        verdict = read_verdict(connection)
    assert origin is not None
    assert verdict is not None
    plain = f"{'ranks' if len(ranks) > 1 else 'rank'} {' and '.join(map(str, ranks))}"
    assert f"It happens on {plain}. What it is given is finite" in tell(verdict.said)
    operator = call.rsplit(".", 2)[0]
    assert origin.name.startswith(f"{operator}.")
    assert f"begins with {origin.name}" in done.stdout + done.stderr
