"""``msprobe-run`` and ``msprobe-bisect``, killed at any moment: nothing torn, lost or left."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe_bisect.command import main as search
from msprobe_collector.run.command import main as record
from tests.bisect.training import KERNELS, TRAIN
from tests.reliability import programs
from tests.reliability.commands import a_database, a_page, a_script
from tests.reliability.killing import KILLS, kill_after, moments_of
from tests.reliability.recorded import check_recorded, some_json

RUN = "import sys; from msprobe_collector.run.command import main; sys.exit(main())"
WAITING = """
import pathlib, time
pathlib.Path("began").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.01)
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
pathlib.Path("made").write_text(sum(one.sum().item() for one in model.parameters()).hex())
pathlib.Path("made").rename("ended")
"""
COMMAND = f"{sys.executable} train.py"
WORDS = [
    *("--npu", f"{COMMAND} gelu", "--bench", f"{COMMAND} none"),
    *("-o", "search", "--steps", "1"),
]
MADE = {"*.vis.db": a_database, "*.json": some_json, "*.html": a_page, "reproduce.py": a_script}


@pytest.mark.slow
def test_a_killed_msprobe_run_leaves_no_temporary_files(tmp_path: Path) -> None:
    def run(moment: int, deadly: int = 0) -> bytes:
        words = ["-o", "dump", "--", "true"]
        return kill_after(programs.run_and_tell, (words, tmp_path, deadly, record), moment)

    left = 0
    for moment, deadly in moments_of(run(-1)):
        assert b"?" not in run(moment, deadly)
        left += any((tmp_path / "tmp").iterdir())
    assert left
    assert run(-1).endswith(b"!")
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_a_training_outlives_its_msprobe_run(tmp_path: Path) -> None:
    """It ends as it would alone. What was to be recorded may be there or not, and is whole."""
    (tmp_path / "train.py").write_text(WAITING)

    def train(*words: str) -> str:
        for name in ("began", "go", "ended"):
            (tmp_path / name).unlink(missing_ok=True)
        command = [*words, sys.executable, "train.py"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            wait_for(tmp_path / "began")
            if words:
                process.kill()
            (tmp_path / "go").touch()
            wait_for(tmp_path / "ended")
        return (tmp_path / "ended").read_text()

    assert train(sys.executable, "-c", RUN, "-o", "dump", "--steps", "0-2", "--") == train()
    check_recorded(tmp_path)


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    """A folder in which a search has ended, and what it has found."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert run_search(tmp_path, -1).endswith(b"!")
    assert result_of(tmp_path)["proof"] == "operator"
    return tmp_path


def run_search(folder: Path, moment: int, deadly: int = 0) -> bytes:
    said = kill_after(programs.run_and_tell, (WORDS, folder, deadly, search), moment)
    assert b"?" not in said
    return said


def result_of(folder: Path) -> dict[str, object]:
    found = json.loads((folder / "search" / "result.json").read_text())
    assert isinstance(found, dict)
    return found


def check_whole(folder: Path) -> None:
    """Everything that has a name of its own."""
    for pattern, check in MADE.items():
        for path in (folder / "search").glob(pattern):
            check(path)


@pytest.mark.slow
def test_a_killed_search_goes_on_to_the_same_end(searched: Path) -> None:
    """Its runs are there; builds, verdicts, the proof and what it writes are what is killed."""
    result = result_of(searched)
    runs = {path.name for path in (searched / "search").iterdir() if path.is_dir()}

    def begin() -> None:
        """Remove what it made; what it left half made the next one has to."""
        for path in (searched / "search").glob("[!.]*"):
            if path.name not in runs | {"bisect.json"}:
                path.unlink()

    begin()
    finished = 0
    for moment, deadly in moments_of(run_search(searched, -1)):
        begin()
        finished += b"!" in run_search(searched, moment, deadly)
        check_whole(searched)
    assert finished < KILLS
    assert run_search(searched, -1).endswith(b"!")
    assert result_of(searched) == result
    assert not list(searched.rglob(".*.building*"))


@pytest.mark.slow
def test_a_search_that_is_killed_while_it_runs_trainings_goes_on(searched: Path) -> None:
    """Also where a training that outlived it still writes what is about to be made anew."""
    result = result_of(searched)
    shutil.rmtree(searched / "search")
    *moments, _ = list(moments_of(run_search(searched, -1)))
    for number, (moment, deadly) in enumerate(moments[:: len(moments) // max(1, KILLS // 10)]):
        if not number % 3:  # else it goes on from where the last one was killed
            shutil.rmtree(searched / "search", ignore_errors=True)
        run_search(searched, moment, deadly)
        check_whole(searched)
    assert run_search(searched, -1).endswith(b"!")
    assert result_of(searched) == result
    assert not list(searched.rglob(".*.building*"))


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
