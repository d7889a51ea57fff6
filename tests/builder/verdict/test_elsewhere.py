"""A call that is given another tensor than the reference gives, in a script of another name."""

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


def test_a_call_that_is_given_what_was_made_before_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npu, bench = (
        write_dump(tmp_path / name, loop(is_wired=is_wired), stack=stack(*[file] * 6))
        for name, file, is_wired in (("n", "train_npu.py", True), ("b", "train.py", False))
    )
    [suspect] = verdict(tmp_path / "build", capsys, npu=npu, bench=bench)["suspects"]
    assert (suspect["node"], suspect["strength"]) == (NAMES[WIRED], "strong")
