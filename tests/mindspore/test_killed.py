"""Recordings of MindSpore that are killed at any moment can be read to their last write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

from tests.mindspore import trainings
from tests.processes import COPIES
from tests.reliability.killing import KILLS, kill_after, moments_of
from tests.reliability.recorded import check_recorded


@pytest.fixture(autouse=True, scope="module")
def copies_have_mindspore() -> None:
    COPIES.set_forkserver_preload(["tests.mindspore.trainings"])


@pytest.mark.slow
@pytest.mark.parametrize("name", trainings.TRAININGS)
def test_a_killed_training_leaves_files_that_can_be_read(name: str, tmp_path: Path) -> None:
    def run(number: int, moment: int, deadly: int) -> tuple[Path, bytes]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return folder, kill_after(trainings.train_and_tell, (name, folder, deadly), moment)

    finished = written = 0
    whole, said = run(0, -1, 0)
    assert b"!" in said
    check_recorded(whole)
    for number, (moment, deadly) in enumerate(moments_of(said), start=1):
        folder, said = run(number, moment, deadly)
        finished += b"!" in said
        check_recorded(folder)
        written += any(path.is_file() for path in folder.glob("*/**/*"))
        shutil.rmtree(folder)
    assert finished < KILLS
    assert written  # moments behind the first write
