"""Run the tests that reach a change, on a copy of the code that has it."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

# What takes seconds to import and is none of ours; a child that is forked has it already.
_HEAVY = ("numpy", "torch", "hypothesis", "pyarrow", "yaml", "_pytest.assertion.rewrite")
PATIENCE = 20
_LEFT_OUT = frozenset({"node_modules", ".stryker"})
_GENERATED = ("tb_graph_ascend/generated", "tb_graph_ascend/static")
OPTIONS = ("-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0")


def copied(repository: Path, tree: Path) -> Path:
    """A copy of what git tracks, generates and has compiled; the repository's cache is shared.

    What is compiled is told by its file's time, which a change makes anew.
    """
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
    code = sorted({Path(name).parent for name in listed if name.endswith(".py")})
    compiled = [
        path.relative_to(repository).as_posix()
        for folder in code
        for path in (repository / folder / "__pycache__").glob("*.pyc")
    ]
    for name in [*filter(None, listed), *generated, *compiled]:
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


def chosen_tests(times: Mapping[str, float], limit: float, fails: Collection[str]) -> list[str]:
    """As many tests as ``limit`` seconds allow, quick ones and those of many kinds first.

    Not those that fail anyway: ``fails`` are tests, or files of them.
    """
    turns: Counter[str] = Counter()
    waiting = []
    for seconds, test in sorted((seconds, test) for test, seconds in times.items()):
        if test not in fails and test.partition("::")[0] not in fails:
            function, _, parameters = test.partition("[")
            # Of recorded cases each folder is a kind.
            kind = f"{function}[{parameters.rpartition('/')[0]}"
            turns[kind] += 1  # the tenth of a kind shows a tenth of what the first does
            waiting.append((seconds * turns[kind], seconds, test))
    chosen: list[str] = []
    spent = 0.0
    for _, seconds, test in sorted(waiting):
        spent += seconds
        if chosen and spent > limit:
            break
        chosen.append(test)
    return chosen


class InOrder:
    """A plugin of pytest that keeps to the order that was asked for, file by file.

    It writes down the first test, or file of tests, that fails.
    """

    def __init__(self, tests: Sequence[str], failed: Path) -> None:
        self._failed = failed
        self._places = {test: place for place, test in enumerate(tests)}
        self._files: dict[str, int] = {}
        for place, test in enumerate(tests):
            self._files.setdefault(test.partition("::")[0], place)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid, encoding="utf-8")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid, encoding="utf-8")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if one.nodeid in self._places]
        items.sort(
            key=lambda one: (
                self._files[one.nodeid.partition("::")[0]],
                self._places[one.nodeid],
            )
        )


class Names:
    """A plugin of pytest that writes down what there is to run."""

    def __init__(self, target: Path) -> None:
        self._target = target

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._target.write_text("\n".join(one.nodeid for one in items), encoding="utf-8")


def collected(tree: Path, paths: Sequence[str], log: Path) -> list[str]:
    """The tests in some files and folders, of those that can be imported."""
    target = log.with_suffix(".names")
    options = [*OPTIONS, "--collect-only", "--continue-on-collection-errors"]
    options.remove("-x")
    run_pytest(tree, [*options, *paths], [Names(target)], log)
    return target.read_text(encoding="utf-8").splitlines()


def outcome(tree: Path, tests: Sequence[str], seconds: float, log: Path) -> tuple[str, str]:
    """What became of a change in ``tree``, and the test that noticed it.

    It was ``killed``, the ``time`` that it may compute was over, or it ``survived``; ``unknown``
    where the machine had no time for it.
    """
    if not tests:
        return "survived", ""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    failed = log.with_suffix(".failed")
    failed.write_text("", encoding="utf-8")
    status = run_pytest(tree, [*OPTIONS, *files], [InOrder(tests, failed)], log, seconds)
    if status is None:
        return "unknown", ""
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "time", ""
    return ("killed", failed.read_text(encoding="utf-8")) if status else ("survived", "")


def run_pytest(
    tree: Path,
    arguments: Sequence[str],
    plugins: Iterable[object],
    log: Path,
    seconds: float | None = None,
) -> int | None:
    """The status of pytest in a child of its own, which may compute for ``seconds``.

    None where it has not ended long after that: a busy machine is no sign of a change.
    """
    child = os.fork()
    if not child:
        _be_child(tree, arguments, plugins, log, seconds)
    end = None if seconds is None else time.monotonic() + PATIENCE * seconds
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


def _be_child(
    tree: Path,
    arguments: Sequence[str],
    plugins: Iterable[object],
    log: Path,
    seconds: float | None,
) -> None:
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
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
