"""Every command that writes, killed at any moment: its file is whole or is not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reliability import programs
from tests.reliability.commands import COMMANDS
from tests.reliability.killing import KILLS, kill_after, moments_of
from tests.reliability.recorded import check_recorded


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_a_whole_file_or_none(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    words, pattern, check = COMMANDS[name]
    folder = Path(shutil.copytree(inputs, tmp_path / "work"))
    out = folder / "out"

    def begin() -> None:
        """Remove what a command wrote, not what it left half written: the next has to."""
        out.mkdir(exist_ok=True)
        for path in out.glob("[!.]*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if name == "append":
            shutil.copy(inputs / "one.vis.db", out / "more.vis.db")

    def found() -> list[Path]:
        files = out.rglob(pattern)
        return [one for one in files if not any(part.startswith(".") for part in one.parts)]

    def run(moment: int, deadly: int = 0) -> bytes:
        return kill_after(programs.run_and_tell, (words.split(), folder, deadly), moment)

    finished = 0
    begin()
    for moment, deadly in moments_of(run(-1)):
        begin()
        said = run(moment, deadly)
        assert b"?" not in said
        assert found() or b"!" not in said
        for path in found():
            check(path)
        finished += b"!" in said
    assert finished < KILLS
    begin()
    assert run(-1).endswith(b"!")
    assert not list(folder.rglob(".*.building*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.TRAININGS)
def test_a_killed_training_leaves_files_that_can_be_read(name: str, tmp_path: Path) -> None:
    """Of all that was written before, to the last call but those of the last moment."""
    finished = 0

    def run(number: int, moment: int, deadly: int) -> tuple[Path, bytes]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return folder, kill_after(programs.train_and_tell, (name, folder, deadly), moment)

    for number, (moment, deadly) in enumerate(moments_of(run(0, -1, 0)[1]), start=1):
        folder, said = run(number, moment, deadly)
        finished += b"!" in said
        assert any(folder.iterdir()) or b"!" not in said
        check_recorded(folder)
        shutil.rmtree(folder)
    assert finished < KILLS
