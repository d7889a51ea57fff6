"""The front end's layout and data: Stryker changes a sample of the lines."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from node import FRONTEND, REPOSITORY

# Of a place so many lines are changed in all ways; about two ways a line.
LINES = 2
_CATALOGUES = "msprobe_builder"
_REPORT = REPOSITORY / ".cache" / "mutants-frontend.json"
_NOTICED = ("Killed", "Timeout", "RuntimeError", "CompileError")


def try_lines(sample: int, seed: int) -> tuple[int, int]:
    """How many changes were noticed, and how many were tried, about ``sample``."""
    config = json.loads((FRONTEND / "stryker.config.json").read_text(encoding="utf-8"))
    places = [place for pattern in config["mutate"] for place in _places(pattern)]
    drawn = random.Random(seed)  # noqa: S311
    chosen = sorted(drawn.sample(places, min(sample // LINES, len(places))))
    command = [sys.executable, "scripts/node.py", "run", "mutants", "--"]
    environment = {**os.environ, "MUTANTS": "1"}
    command += ["--mutate", ",".join(chosen)]
    _link_catalogues()
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)
    return _score()


def _link_catalogues() -> None:
    """Show the copies that Stryker makes what the page imports from beside the front end.

    Tests whose imports are not found do not run, and all that they would notice survives.
    """
    link = FRONTEND / ".stryker" / _CATALOGUES
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(REPOSITORY / _CATALOGUES)


def _places(pattern: str) -> Iterator[str]:
    """Lines of the files of a pattern, ``src/layout/rows.ts:11-12``, each line once."""
    before, _, after = pattern.partition("{")
    names, _, behind = after.partition("}")
    for one in [f"{before}{name}{behind}" for name in names.split(",")]:
        for path in sorted(FRONTEND.glob(one)):
            count = len(path.read_text(encoding="utf-8").splitlines())
            name = path.relative_to(FRONTEND).as_posix()
            for first in range(1, count, LINES):
                yield f"{name}:{first}-{first + LINES - 1}"


def _score() -> tuple[int, int]:
    files = json.loads(_REPORT.read_text(encoding="utf-8"))["files"]
    found = [
        (Path(name).name, one)
        for name, file in files.items()
        for one in file["mutants"]
        if one["status"] != "Ignored"
    ]
    for name, one in found:
        if one["status"] not in _NOTICED:
            print(f"{one['status']} {name}:{one['location']['start']['line']} {one['replacement']}")
    return sum(one["status"] in _NOTICED for _, one in found), len(found)
