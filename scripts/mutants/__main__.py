"""Change the code in one place at a time and see whether a test notices.

    python -m mutants [--area verdict] [--sample 40] [--seed 1] [--tests PATH...]

Of each area a random sample is tried; the same seed gives the same sample of the same code. First
it is recorded which tests reach which statements (docs/testing.md). A change then runs some of
those, as many as compute for ``--seconds`` without it. So the score, the share that made a test
fail or compute for too long, is the least that all tests would notice.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from mutants.changes import Change, applied, changes_of
from mutants.frontend import try_lines
from mutants.reached import Reached, Recorder, key_of, mark, reaching
from mutants.trying import OPTIONS, chosen_tests, collected, copied, outcome, prepare, run_pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "mutants"


@dataclass(frozen=True)
class Area:
    """Code, and the tests that are there for it."""

    code: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = {
    "verdict": Area(
        ("msprobe_builder/verdict",),
        (
            *("tests/recorded", "tests/properties", "tests/builder/verdict"),
            *("tests/builder/merge", "tests/faults"),
        ),
    ),
    "model": Area(
        ("msprobe_builder/verdict/model", "msprobe_builder/verdict/judge.py"),
        ("tests/builder/verdict", "tests/properties"),
    ),
    "align": Area(
        ("msprobe_builder/align",),
        ("tests/recorded", "tests/properties", "tests/alignment", "tests/builder/match"),
    ),
    "merge": Area(
        ("msprobe_builder/merge",),
        ("tests/recorded", "tests/properties", "tests/builder/merge"),
    ),
    "record": Area(("msprobe_collector/record",), ("tests/collector",)),
    "query": Area(
        ("tb_graph_ascend/query", "msprobe_builder/database/read"),
        (
            *("tests/plugin", "tests/builder/database", "tests/builder/export"),
            *("tests/builder/tables", "tests/builder/trend", "tests/builder/communication"),
        ),
    ),
}
_NOTICED = ("killed", "time")
LAYOUT = "layout"  # the front end's, which Stryker changes


def main() -> int:
    """Try a sample; 0 when it was tried, whatever its score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--area", choices=[*AREAS, LAYOUT], action="append", help="all when left out"
    )
    parser.add_argument("--sample", type=int, default=40, help="how many changes of each area")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="of tests for a change")
    parser.add_argument("--jobs", type=int, default=1, help="changes that are tried at once")
    parser.add_argument("--only", default="", help="part of the names of changes")
    parser.add_argument("--tests", nargs="+", help="instead of those of the area")
    parser.add_argument("--keep", action="store_true", help="what was recorded of older code")
    options = parser.parse_args()

    prepare()
    scores = []
    for name in options.area or [*AREAS, LAYOUT]:
        if name == LAYOUT:
            noticed, tried = try_lines(options.sample, options.seed)
            scores.append((name, noticed, tried))
            continue
        area = AREAS[name]
        tests, reached = reached_by_tests(options.tests or area.tests, keep=options.keep)
        changes = [one for one in all_changes(area) if options.only in one.name]
        if not changes:
            sys.exit(f"No change of {name} has {options.only!r} in its name.")
        drawn = random.Random(options.seed)  # noqa: S311
        chosen = drawn.sample(changes, min(options.sample, len(changes)))
        with_tests = [(one, reaching(reached, one, tests)) for one in chosen]
        noticed, tried = try_changes(name, with_tests, options.seconds, options.jobs)
        scores.append((name, noticed, tried))
    print("\n| area | tried | noticed |\n|---|--:|--:|")
    for name, noticed, tried in scores:
        print(f"| {name} | {tried} | {noticed}, {noticed / max(tried, 1):.0%} |")
    return 0


def sources(root: Path, *areas: Area) -> list[Path]:
    places = [root / place for area in areas for place in area.code]
    return sorted(
        {path for place in places for path in ([place] if place.is_file() else place.rglob("*.py"))}
    )


def all_changes(area: Area) -> list[Change]:
    files = sources(REPOSITORY, area)
    code = sources(REPOSITORY, *AREAS.values())
    return [one for path in files for one in changes_of(REPOSITORY, path, code)]


def reached_by_tests(paths: Sequence[str], *, keep: bool) -> tuple[list[str], Reached]:
    """The tests of some files and folders, and what was recorded of all tests so far.

    What has not been recorded of this code, or of a test as it is now, is recorded first; ``keep``
    takes any code's.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    tree = copied(REPOSITORY, CACHE / f"tree-{os.getpid()}")
    target = CACHE / "reached.json"
    log = CACHE / f"recording-{os.getpid()}.log"
    code = sources(tree, *AREAS.values())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()[:12]
    tests = collected(tree, [one for one in paths if (tree / one).exists()], log)
    keys = {test: key_of(test, tree, digest) for test in tests}
    reached = Reached.read(target)

    def is_known(test: str) -> bool:
        known = reached.keys.get(test, "")
        return known == keys[test] or (keep and known[len(digest) :] == keys[test][len(digest) :])

    wanted = {test: key for test, key in keys.items() if not is_known(test)}
    if wanted:
        print(f"recording what {len(wanted)} tests reach", flush=True)
        marked = mark(tree, code)
        arguments = [one for one in OPTIONS if one != "-x"]
        files = dict.fromkeys(test.partition("::")[0] for test in wanted)
        recorder = Recorder(tree, marked, wanted, target)
        if run_pytest(tree, [*arguments, *files], [recorder], log):
            print(f"Some tests fail without a change and are left out; see {log}.")
        reached = Reached.read(target)
    shutil.rmtree(tree)
    return tests, reached


def try_changes(
    name: str, changes: Sequence[tuple[Change, dict[str, float]]], seconds: float, jobs: int
) -> tuple[int, int]:
    """How many changes were noticed, and how many were tried; tells each as it comes.

    With each the seconds of the tests that reach it; ``jobs`` are tried at once.
    """
    passes: set[str] = set()  # without a change, so that what fails with one has noticed it
    fails: set[str] = set()
    free: Queue[tuple[Path, Path]] = Queue()
    with tempfile.TemporaryDirectory(prefix=f"mutants-{name}-") as folder:
        for job in range(jobs):
            tree = copied(REPOSITORY, Path(folder) / str(job))
            free.put((tree, CACHE / f"{name}-last-{job}.log"))

        def try_one(change: Change, times: dict[str, float]) -> str:
            tree, log = free.get()
            path = tree / change.path
            original = path.read_bytes()
            began = time.monotonic()
            while True:
                tests = chosen_tests(times, seconds, fails)
                limit = 60 + 3 * sum(times[test] for test in tests)
                path.write_bytes(applied(original, change))
                found, test = outcome(tree, tests, limit, log)
                path.write_bytes(original)
                if not test or test in passes:
                    break
                # Of a file that cannot be imported one test says whether that is the change.
                again = [one for one in tests if one == test or one.startswith(f"{test}::")][:1]
                if outcome(tree, again, limit, log)[0] == "survived":
                    passes.add(test)
                    break
                print(f"    {test} fails without a change and is left out", flush=True)
                fails.add(test)
            free.put((tree, log))
            took = time.monotonic() - began
            old = original[change.start : change.end].decode()
            said = (
                f"{found} ({len(tests)} of {len(times)} tests, {took:.0f} s) {change.name} {test}"
            )
            is_open = found not in _NOTICED
            said += f"\n    {old!r}\n    {change.text!r}" if is_open else f" {test}"
            print(said, flush=True)
            return found

        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(lambda one: try_one(*one), changes))
    return sum(one in _NOTICED for one in found), sum(one != "unknown" for one in found)


if __name__ == "__main__":
    sys.exit(main())
