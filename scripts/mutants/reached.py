"""Which tests reach which function: recorded once, on a copy of the code that marks what it enters.

The marks lie in a file that every process of a test maps, so that what a started program or a
server enters counts as well.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mutants.changes import functions

MARKS = "mutant_marks"
_MODULE = """import mmap, pathlib
_file = pathlib.Path(__file__).with_suffix(".bin").open("r+b")
marks = mmap.mmap(_file.fileno(), 0)
"""


def mark(tree: Path, paths: Sequence[Path]) -> list[str]:
    """Have each function of these files mark that it was entered; the names, by place."""
    names: list[str] = []
    for path in paths:
        parsed = ast.parse(path.read_bytes())
        name = path.relative_to(tree).as_posix()
        for where, top in functions(parsed):
            if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef):
                [enter] = ast.parse(f"_marks_[{len(names)}] = 1").body
                top.body.insert(1 if ast.get_docstring(top) else 0, enter)
                names.append(f"{name}::{where}")
        place = sum(
            isinstance(one, ast.Expr)
            or (isinstance(one, ast.ImportFrom) and one.module == "__future__")
            for one in parsed.body[:2]
        )
        parsed.body.insert(place, ast.parse(f"from {MARKS} import marks as _marks_").body[0])
        path.write_text(ast.unparse(ast.fix_missing_locations(parsed)), encoding="utf-8")
    (tree / f"{MARKS}.py").write_text(_MODULE, encoding="utf-8")
    (tree / f"{MARKS}.bin").write_bytes(bytes(max(len(names), 1)))
    return names


class Recorder:
    """A plugin of pytest: of each test that passes its seconds, and what it reaches."""

    def __init__(self, tree: Path, names: Sequence[str], target: Path) -> None:
        self._names = names
        self._target = target
        self._file = tree / f"{MARKS}.bin"
        self._made: dict[str, set[int]] = {}
        self._fixtures: dict[int, set[int]] = {}
        self._tests: dict[str, tuple[float, list[str]]] = {}
        self._reached: set[int] = set()

    def _taken(self) -> set[int]:
        """What was entered since this was asked last."""
        with self._file.open("r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(bytes(len(content)))
        return {place for place, byte in enumerate(content) if byte}

    def pytest_sessionstart(self) -> None:
        """What is made once for several tests counts for each of them."""
        from tests import conftest, sharing  # the copy's

        make_once = sharing.make_once

        def make(path: Path, fill: Callable[[Path], None]) -> Path:
            self._reached |= self._taken()
            made = make_once(path, fill)
            entered = self._taken()
            self._made.setdefault(str(path), set()).update(entered)
            self._reached |= self._made[str(path)]
            return made

        for module in (sharing, conftest):
            vars(module)["make_once"] = make

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before, self._reached = self._reached | self._taken(), set()
        try:
            return (yield)
        finally:
            reached = self._reached | self._taken()
            self._fixtures.setdefault(id(fixturedef), set()).update(reached)
            self._reached = before | reached

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Function) -> Iterator[None]:
        self._taken()
        self._reached = set()
        result = yield
        reached = self._reached | self._taken()
        for defined in item._fixtureinfo.name2fixturedefs.values():
            for fixture in defined:
                reached |= self._fixtures.get(id(fixture), set())
        if item.nodeid in self._tests:
            seconds = self._tests[item.nodeid][0]
            self._tests[item.nodeid] = (seconds, [self._names[one] for one in sorted(reached)])
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.outcome == "passed":
            self._tests[report.nodeid] = (report.duration, [])

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(json.dumps(self._tests), encoding="utf-8")
