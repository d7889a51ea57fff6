"""Which tests reach what: recorded once, on a copy of the code that marks what it enters.

The marks lie in a file that every process of a test maps, so that what a started program or a
server enters counts as well.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mutants.changes import Change, functions, region_name, regions

MARKS = "mutant_marks"
_MODULE = """import mmap, pathlib
_file = pathlib.Path(__file__).with_suffix(".bin").open("r+b")
marks = mmap.mmap(_file.fileno(), 0)
"""
_SAVED_EVERY = 60.0  # seconds


@dataclass
class Reached:
    """What was recorded so far of each test.

    ``keys`` are of the code and of its file, ``seconds`` of computing are None where it does not
    pass, ``regions`` are bytes, the bits of which say which of ``names`` it enters.
    """

    names: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float | None] = field(default_factory=dict)
    regions: dict[str, NDArray[np.uint8]] = field(default_factory=dict)

    def add_to(self, path: Path) -> None:
        """Write what a file holds, and this; another process may have added to it."""
        whole = Reached.read(path)
        known = set(whole.names)
        whole.names += [name for name in self.names if name not in known]
        place = {name: number for number, name in enumerate(whole.names)}
        places = np.array([place[name] for name in self.names], np.intp)
        for test, own in self.regions.items():
            bits = np.zeros(len(whole.names), np.bool_)
            bits[places[np.flatnonzero(np.unpackbits(own)[: len(places)])]] = True
            whole.keys[test], whole.seconds[test] = self.keys[test], self.seconds[test]
            whole.regions[test] = np.packbits(bits)
        content = {
            "names": whole.names,
            "tests": {
                test: [key, whole.seconds[test], whole.regions[test].tobytes().hex()]
                for test, key in whole.keys.items()
            },
        }
        draft = path.with_suffix(f".draft{os.getpid()}")
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Reached:
        found = cls()
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            found.names = content["names"]
            for test, (key, seconds, entered) in content["tests"].items():
                found.keys[test], found.seconds[test] = key, seconds
                found.regions[test] = np.frombuffer(bytes.fromhex(entered), np.uint8)
        return found


def reaching(reached: Reached, change: Change, tests: Sequence[str]) -> dict[str, float]:
    """Seconds of those of the tests that reach a change and pass without it."""
    places = [
        place
        for place, name in enumerate(reached.names)
        if (name in change.regions if change.regions else name.startswith(f"{change.path}::"))
    ]
    found = {}
    for test in tests:
        seconds = reached.seconds.get(test)
        if seconds is not None:
            bits = np.unpackbits(reached.regions[test])
            if any(place < len(bits) and bits[place] for place in places):
                found[test] = seconds
    return found


def key_of(test: str, tree: Path, code: str) -> str:
    """What a recording of a test is valid for: its file, and the code by its digest."""
    file = (tree / test.partition("::")[0]).read_bytes()
    return f"{code}-{hashlib.sha256(file).hexdigest()[:12]}"


def mark(tree: Path, paths: Sequence[Path]) -> list[str]:
    """Have each region of these files mark that it was entered; the names, by place."""
    names: list[str] = []
    for path in paths:
        parsed = ast.parse(path.read_bytes())
        name = path.relative_to(tree).as_posix()
        for where, top in functions(parsed):
            found = list(enumerate(regions(top), len(names)))
            names += [region_name(name, where, place) for place in range(len(found))]
            for place, region in reversed(found):
                region.body.insert(region.start, ast.parse(f"_marks_[{place}] = 1").body[0])
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
    """A plugin of pytest: of each wanted test, by its key, what it takes and reaches.

    ``marked`` are the names by place in the file of marks.
    """

    def __init__(self, tree: Path, marked: Sequence[str], wanted: dict[str, str], to: Path) -> None:
        self._wanted = wanted
        self._found = Reached(list(marked))
        self._to = to
        self._file = tree / f"{MARKS}.bin"
        self._made: dict[str, set[int]] = {}
        self._fixtures: dict[int, set[int]] = {}
        self._passed: set[str] = set()
        self._reached: set[int] = set()
        self._saved = time.monotonic()

    def _taken(self) -> set[int]:
        """What was entered since this was asked last."""
        with self._file.open("r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(bytes(len(content)))
        return {place for place, byte in enumerate(content) if byte}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if one.nodeid in self._wanted]

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
        began = sum(os.times()[:4])
        result = yield
        reached = self._reached | self._taken()
        for defined in item._fixtureinfo.name2fixturedefs.values():
            for fixture in defined:
                reached |= self._fixtures.get(id(fixture), set())
        bits = np.zeros(len(self._found.names), np.bool_)
        bits[sorted(reached)] = True
        self._found.keys[item.nodeid] = self._wanted[item.nodeid]
        took = sum(os.times()[:4]) - began  # other processes on the machine do not count
        self._found.seconds[item.nodeid] = took if item.nodeid in self._passed else None
        self._found.regions[item.nodeid] = np.packbits(bits)
        if time.monotonic() > self._saved + _SAVED_EVERY:
            self._found.add_to(self._to)
            self._saved = time.monotonic()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.outcome == "passed":
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._found.add_to(self._to)
