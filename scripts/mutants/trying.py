"""Run the tests that reach a change, on a copy of the code that has it."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

# What takes seconds to import and is none of ours; a child that is forked has it already.
_HEAVY = ("numpy", "torch", "hypothesis", "pyarrow", "yaml", "_pytest.assertion.rewrite")
_LEFT_OUT = frozenset({"node_modules", ".stryker"})
_GENERATED = ("tb_graph_ascend/generated", "tb_graph_ascend/static")
OPTIONS = ("-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0")


def copied(repository: Path, tree: Path) -> Path:
    """A copy of what git tracks and of what is generated; the repository's cache is shared."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    generated = [
        path.relative_to(repository).as_posix()
        for folder in _GENERATED
        for path in (repository / folder).rglob("*")
    ]
    for name in [*filter(None, listed), *generated]:
        source = repository / name
        if source.is_file() and _LEFT_OUT.isdisjoint(source.parts):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (tree / ".cache").symlink_to(repository / ".cache")
    return tree


def prepare() -> None:
    """Import what every child needs."""
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def chosen_tests(
    times: Mapping[str, tuple[float, Sequence[str]]], place: str, limit: float
) -> list[str]:
    """The tests that reach a place, the quickest first, as many as ``limit`` seconds allow.

    ``place`` is ``file::function``, or a file: all tests that reach anything there.
    """
    reaching = sorted(
        (seconds, test)
        for test, (seconds, reached) in times.items()
        if any(one == place or one.startswith(f"{place}::") for one in reached)
    )
    chosen: list[str] = []
    spent = 0.0
    for seconds, test in reaching:
        spent += seconds
        if chosen and spent > limit:
            break
        chosen.append(test)
    return chosen


class InOrder:
    """A plugin of pytest that keeps to the order that was asked for, file by file."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}
        self._files: dict[str, int] = {}
        for place, test in enumerate(tests):
            self._files.setdefault(test.partition("::")[0], place)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if one.nodeid in self._places]
        items.sort(
            key=lambda one: (
                self._files[one.nodeid.partition("::")[0]],
                self._places[one.nodeid],
            )
        )


def outcome(tree: Path, tests: Sequence[str], seconds: float, log: Path) -> str:
    """What became of a change in ``tree``: ``killed``, ``time`` (is over) or ``survived``."""
    if not tests:
        return "survived"
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    status = run_pytest(tree, [*OPTIONS, *files], [InOrder(tests)], log, seconds)
    if status is None:
        return "time"
    return "survived" if status == 0 else "killed"


def run_pytest(
    tree: Path,
    arguments: Sequence[str],
    plugins: Iterable[object],
    log: Path,
    seconds: float | None = None,
) -> int | None:
    """The status of pytest in a child of its own; None when the time was over."""
    child = os.fork()
    if not child:
        _be_child(tree, arguments, plugins, log)
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or (end is not None and time.monotonic() > end):
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # servers that it has started end with it
    if ended:
        return os.waitstatus_to_exitcode(status)
    os.waitpid(child, 0)
    return None


def _be_child(tree: Path, arguments: Sequence[str], plugins: Iterable[object], log: Path) -> None:
    os.setsid()
    os.chdir(tree)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["PYTHONPATH"] = str(tree)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two changes may lie within one second
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree))
    try:
        status = int(pytest.main(list(arguments), plugins=list(plugins)))
    except BaseException:  # noqa: BLE001, RUF100
        status = 70
    sys.stdout.flush()
    os._exit(status)
