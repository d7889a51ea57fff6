"""Who opens files while commands, recordings and the viewer run, as Python itself tells it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.plugin.conftest import client_of
from tests.reliability import programs
from tests.reliability.commands import COMMANDS
from tests.reliability.killing import kill_after
from tests.test_door import DOOR, PAST_THE_DOOR

MAY_OPEN = {name.partition(":")[0] for name in PAST_THE_DOOR}
# What is told by the training alone: settings are collected of it, the others are given theirs.
READ_NOTHING = {"record settings", "record msprobe-run", "record trace"}
NAMES = [*COMMANDS, *(f"record {name}" for name in programs.TRAININGS), "viewer"]


def show(folder: Path) -> None:
    """The viewer's answers about a database."""
    ask = client_of(folder)
    for route in ("catalog", "measures", "values", "matches", "search"):
        assert ask(route, file="x.vis.db", step="0", rank="0").status_code < 500
    assert (
        ask("node", file="x.vis.db", step="0", rank="0", side="npu", index="3").status_code == 200
    )


def round_the_door(folder: Path) -> None:
    """What :func:`show` would be if one of ours opened a file by a name that nobody looks for."""
    text = f"vars(__import__('io'))['o' + 'pen']({str(folder / 'compare.json')!r})"
    exec(text, {"__name__": "tb_graph_ascend.http.somewhere"})  # noqa: S102


def opened_by(run: Callable[[], object], folder: Path) -> set[str]:
    """The modules of ours that opened files in a folder."""
    return set(kill_after(programs.run_and_tell_readers, (run, folder), -1).decode().split())


@pytest.fixture
def work(inputs: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(inputs, tmp_path / "work"))
    (folder / "out").mkdir()
    shutil.copy(folder / "one.vis.db", folder / "out" / "more.vis.db")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_comes_through_the_door(name: str, work: Path) -> None:
    runs: dict[str, Callable[[], object]] = {
        of: partial(main, words.split()) for of, (words, *_) in COMMANDS.items()
    }
    runs |= {f"record {of}": partial(train, work) for of, train in programs.TRAININGS.items()}
    found = opened_by((runs | {"viewer": partial(show, work)})[name], work)
    assert found or name in READ_NOTHING
    past = {one for one in found - MAY_OPEN if not one.startswith(f"{DOOR}.")}
    assert not past, f"ask {DOOR}"


def test_a_reader_that_no_source_shows_is_seen(work: Path) -> None:
    found = opened_by(partial(round_the_door, work), work)
    assert found == {"tb_graph_ascend.http.somewhere"}
