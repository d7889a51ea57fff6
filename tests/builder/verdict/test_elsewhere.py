"""Calls outside of modules that another file makes, and files that have but another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builder.small_dumps import Record, forward, number, tensor, write_dump
from tests.builder.verdict.test_noise_path import verdict

FIRST, OTHER, *NORMS = (
    tensor(norm, high=norm / 2, low=-norm / 3) for norm in (2.0, 5.0, 3.0, 7.0, 11.0, 13.0, 17.0)
)
NAMES = [f"Torch.{name}.0.forward" for name in ("relu", "exp", "sin", "cos", "tan", "tanh")]
WIRED = 4  # the call that is given another tensor than what was just made


def loop(*, is_wired: bool) -> dict[str, Record]:
    """Each call is given what the one before put out, but one that may be given the first."""
    records, last = {}, FIRST
    for place, (name, made) in enumerate(zip(NAMES, [*NORMS, tensor(19.0)], strict=True)):
        if place == WIRED and is_wired:
            last, made = FIRST, OTHER
        records[name] = forward([last, number(place)], [made])
        last = made
    return records


def stack(*files: str) -> dict[str, Any]:
    """The file of each call."""
    return {
        str(place): [
            [name],
            [f"File /home/user/{file}, line {place}, in step, \n y = call(x)"],
        ]
        for place, (name, file) in enumerate(zip(NAMES, files, strict=True))
    }


@pytest.mark.parametrize(
    ("files", "strength"),
    [
        (["train.py"] * 6, "strong"),
        (["train_npu.py"] * 6, "strong"),
        (["train.py"] * WIRED + ["engine.py"] * 2, "weak"),
        (["train_npu.py"] * WIRED + ["engine.py"] * 2, "weak"),
    ],
)
def test_a_script_of_another_name_is_accused_but_not_another_part_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: list[str], strength: str
) -> None:
    npu = write_dump(tmp_path / "n", loop(is_wired=True), stack=stack(*files))
    bench = write_dump(tmp_path / "b", loop(is_wired=False), stack=stack(*["train.py"] * 6))
    [suspect] = verdict(tmp_path / "build", capsys, npu=npu, bench=bench)["suspects"]
    assert (suspect["node"], suspect["cause"]) == (NAMES[WIRED], "wiring")
    assert suspect["strength"] == strength
