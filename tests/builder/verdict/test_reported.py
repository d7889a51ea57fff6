"""Runs made after public reports of bugs, judged as a user would have them judged."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from msprobe_builder.database.read.verdict import Verdict
from tests.conftest import REPOSITORY
from tests.faults.judging import verdict_on

FOLDER = REPOSITORY / "tests/data/reported"
CASES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))


def sides(name: str, folder: Path) -> tuple[Path, Path]:
    """Where both runs of an archive lie."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    npu = next(folder.rglob("npu"))
    return npu, npu.with_name("bench")


def accused(verdict: Verdict) -> list[str]:
    """Whom a verdict accuses for certain."""
    return [one.node for one in verdict.suspects if one.strength == "strong"]


@pytest.mark.parametrize("name", CASES)
def test_a_person_would_conclude_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    verdict = verdict_on(*sides(name, tmp_path), tmp_path / "out")
    first = verdict.suspects[0].node if verdict.suspects else ""
    assert verdict.conclusion in case["is"]
    assert re.search(case.get("first", ""), first)
    assert "not_first" not in case or not re.search(case["not_first"], first)
    if "nobody" in case:
        assert not [one for one in accused(verdict) if case["nobody"] in one]


@pytest.mark.parametrize("name", [name for name, one in CASES.items() if "nobody" in one])
def test_nobody_is_accused_with_the_sides_exchanged_either(name: str, tmp_path: Path) -> None:
    npu, bench = sides(name, tmp_path)
    found = accused(verdict_on(bench, npu, tmp_path / "out"))
    assert not [one for one in found if CASES[name]["nobody"] in one]


@pytest.mark.parametrize("name", [name for name, one in CASES.items() if one["is"] != ["clean"]])
def test_a_run_beside_itself_is_clean(name: str, tmp_path: Path) -> None:
    npu, _ = sides(name, tmp_path)
    verdict = verdict_on(npu, npu, tmp_path / "out")
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
