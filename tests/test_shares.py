"""A share of planted cases that is too small fails the run, however many processes tried them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import shares
from tests.cases import REPEATED, tried_first
from tests.conftest import REPOSITORY

CONFTEST = """
import pytest
from tests.conftest import pytest_addoption, pytest_configure, pytest_collection_modifyitems
from tests.conftest import pytest_report_header, record_share
"""
CASES = """
import pytest

@pytest.mark.planted
@pytest.mark.parametrize("number", range(20))
def test_a_fault(number, record_share):
    record_share("same", is_right=number < {right})

@pytest.mark.control
def test_a_control():
    pass

def test_another():
    pass
"""


def run(folder: Path, *options: str, right: int = 20) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES.format(right=right))
    plugins = ("-p", "xdist", "-p", "no:cacheprovider")
    arguments = ("-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(folder), *plugins)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, *options, "."],
        cwd=folder,
        env={
            "PYTHONPATH": str(REPOSITORY),
            "PATH": "/usr/bin:/bin",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("right", "status", "processes"),
    tried_first([(19, 1, "2"), (20, 0, "0"), (20, 0, "2"), (19, 1, "0")], 2, REPEATED),
)
def test_all_cases_together_reach_the_aim_or_fail(
    right: int, status: int, processes: str, tmp_path: Path
) -> None:
    answer = run(tmp_path, "-n", processes, "--planted=all", right=right)
    assert answer.returncode == status, answer.stdout
    assert f"same: the culprit first in {right} of 20 planted cases, aim 97%" in answer.stdout
    last = answer.stdout.strip().splitlines()[-1]
    assert ("1 failed, 22 passed" if status else "23 passed") in last


def test_without_planted_cases_none_is_tried(tmp_path: Path) -> None:
    last = run(tmp_path, "--planted=none").stdout.strip().splitlines()[-1]
    assert "1 passed, 21 deselected" in last


def test_a_part_is_some_of_the_faults_and_all_controls(tmp_path: Path) -> None:
    faults = [f"test_a_fault[{number}]" for number in range(20)]
    part = shares.part_of(faults[0])
    answer = run(tmp_path, f"--planted={part}", "--collect-only", "-q")
    names = [line.rpartition("::")[2] for line in answer.stdout.splitlines() if "::" in line]
    chosen = [name for name in faults if shares.part_of(name) == part]
    assert names == [*chosen, "test_a_control", "test_another"]
    assert len(chosen) < len(faults)
