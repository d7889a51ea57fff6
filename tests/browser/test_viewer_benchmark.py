"""benchmarks/viewer.py goes through the whole viewer; here on a small file, however slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.conftest import generate
from tests.conftest import REPOSITORY

TARGETS = {"first graph", "open", "pan", "zoom", "next hit", "details", "match a subtree"}


@pytest.mark.slow
def test_it_measures_every_figure_that_has_a_target(tmp_path: Path) -> None:
    database = generate(tmp_path / "wide.vis.db", "--layers", "4", "--wide", "600")
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "viewer.py"), str(database)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)}
    assert done.returncode == (
        not all(figure["met"] in (True, None) for figure in figures.values())
    )
    with_target = [name for name, figure in figures.items() if figure["target"] is not None]
    assert {word for word in TARGETS for name in with_target if name.startswith(word)} == TARGETS
    assert all(figure["value"] > 0 for figure in figures.values())
    assert figures["open 600 children, both sides"]["unit"] == "ms"
    assert figures["rows then"]["value"] > 1200
