"""Every row of the table of hostile input ends with the sentence that stands beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder.inputs.hostile import CASES, Case
from tests.builder.small_dumps import write_dump

SECONDS = 60  # none of them takes one, unless it hangs


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_hostile_input_ends_with_its_sentence(case: Case, tmp_path: Path) -> None:
    for name in ("npu", "bench"):
        write_dump(tmp_path / name, case.data or {}, case.construct, case.stack)
    (tmp_path / "compare.json").write_text('{"npu_path": "npu", "bench_path": "bench"}')
    case.spoil(tmp_path)
    command = [*(sys.executable, "-m", "msprobe_builder"), "-i", "compare.json", "-o", "out"]
    ended = subprocess.run(
        [*command, *case.options],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    said = ended.stdout + ended.stderr
    assert "Traceback" not in said
    assert case.sentence in said.replace(str(tmp_path) + "/", ""), said
    assert ended.returncode == case.status, said
    written = list(tmp_path.rglob("*.vis.db"))
    assert bool(written) == (case.status in (0, 3))
    assert not list(tmp_path.rglob("*.building*"))
    assert all(character.isprintable() for line in said.splitlines() for character in line)


def test_the_table_names_each_case_once() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
