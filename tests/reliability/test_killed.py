"""Killed at any moment: no torn file, and nothing lost that was acknowledged."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.builder.integrity import check
from tests.builder.rematch.rebuild import check_sound, matched
from tests.plugin.conftest import catalog, client_of
from tests.reliability import programs
from tests.reliability.killing import KILLS, kill_after

FILE = "demo.vis.db"


@pytest.mark.slow
def test_a_build_killed_at_any_moment_leaves_no_torn_file(dumps: Path, tmp_path: Path) -> None:
    runs = [dumps / f"llama_statistics_L0/step{step}/rank" for step in (0, 1)]
    whole = len(kill_after(programs.build_and_tell, (*runs, tmp_path / "whole"), -1))
    moments = random.Random(1)  # noqa: S311
    finished = 0
    for number in range(KILLS):
        out = tmp_path / f"{number % 7}"
        moment = moments.randrange(1, whole + whole // 10)
        said = kill_after(programs.build_and_tell, (*runs, out), moment)
        result = out / "x.vis.db"
        assert result.exists() or b"!" not in said
        if result.exists():
            finished += 1
            check(result).close()
            result.unlink()
    assert 0 < finished < KILLS  # moments before and after the end
    assert kill_after(programs.build_and_tell, (*runs, tmp_path / "0"), -1).endswith(b"!")
    assert [path.name for path in (tmp_path / "0").iterdir()] == ["x.vis.db"]


@pytest.mark.slow
def test_a_server_killed_at_any_moment_keeps_what_it_acknowledged(
    demo_database: Path, tmp_path: Path
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / FILE))
    moments = random.Random(2)  # noqa: S311
    ended: set[str] = set()
    for number in range(KILLS):
        arguments = (database, 1 + 2 * number)
        said = kill_after(programs.unmatch_and_tell, arguments, moments.randrange(1, 200))
        *whole, _ = said.replace(b".\n", b"\n").split(b"\n")
        ended |= {line.lstrip(b".").decode() for line in whole if line.lstrip(b".")}
        [file] = catalog(client_of(tmp_path)).files
        assert not file.HasField("problem"), file.problem
        assert not ended & matched(database).keys()
        check_sound(database)
    with closing(sqlite3.connect(database)) as connection:
        [[edits]] = connection.execute("SELECT count(*) FROM edit")
    assert edits >= len(ended) > 0
    assert json.dumps(sorted(ended))
