"""What is not edited is recorded as if it were, and trains as if it were not recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collector.run.trainings import TRAININGS, edited
from tests.processes import run_program

FOLLOW = "from msprobe_collector import record_training; record_training('dump', [0, 2])\n"


def run(folder: Path, text: str) -> str:
    """What the script prints, in a process of its own."""
    folder.mkdir()
    answer = run_program(folder, text)
    assert not answer.returncode, answer.stderr
    return answer.stdout


def records(folder: Path) -> dict[str, Any]:
    """Of every step, without stacks: an edited script has other lines."""
    return {
        f"{path.parent.parent.name}/{path.name}": json.loads(path.read_text())
        for path in sorted(folder.glob("dump/step*/rank/*.json"))
        if path.name in ("dump.json", "construct.json")
    }


def test_a_script_that_records_itself_is_left_alone(tmp_path: Path) -> None:
    by_hand = edited(TRAININGS["accumulation"])
    assert run(tmp_path / "plain", by_hand) == run(tmp_path / "followed", FOLLOW + by_hand)
    assert records(tmp_path / "plain") == records(tmp_path / "followed")


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_is_recorded_as_the_edited_one(name: str, tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", TRAININGS[name])
    by_hand = run(tmp_path / "by_hand", edited(TRAININGS[name]))
    followed = run(tmp_path / "followed", FOLLOW + TRAININGS[name])
    assert plain == followed == by_hand
    expected, found = records(tmp_path / "by_hand"), records(tmp_path / "followed")
    assert found.keys() == expected.keys()
    assert {path.split("/")[0] for path in found} == {"step0", "step2"}
    for path in expected:
        assert list(found[path]) == list(expected[path]), path
        assert found[path] == expected[path], path
