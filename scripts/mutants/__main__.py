"""Change the code in one place at a time and see whether a test notices.

    python -m mutants [--area verdict] [--sample 40] [--seed 1] [--tests PATH...]

Of each area a random sample is tried; the same seed gives the same sample of the same code. First
it is recorded which tests reach which function (docs/testing.md). A change then runs those alone,
the quickest first, as many as take ``--seconds`` without it. So the score, the share that made a
test fail or run for too long, is the least that all tests would notice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.changes import MODULE, Change, applied, changes_of
from mutants.frontend import try_lines
from mutants.reached import Recorder, mark
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
        ("tests/recorded", "tests/properties", "tests/builder/verdict", "tests/faults"),
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
        ("tests/plugin", "tests/builder/database"),
    ),
}
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
        tests = tuple(options.tests or area.tests)
        times = reached_by_tests(tests, keep=options.keep)
        changes = [one for one in all_changes(area) if options.only in one.name]
        if not changes:
            sys.exit(f"No change of {name} has {options.only!r} in its name.")
        drawn = random.Random(options.seed)  # noqa: S311
        chosen = drawn.sample(changes, min(options.sample, len(changes)))
        noticed, tried = try_changes(name, chosen, times, options.seconds)
        scores.append((name, noticed, tried))
    print("\n| area | tried | noticed |\n|---|--:|--:|")
    for name, noticed, tried in scores:
        print(f"| {name} | {tried} | {noticed}, {noticed / max(tried, 1):.0%} |")
    return 0


def sources(root: Path, area: Area) -> list[Path]:
    return sorted(path for folder in area.code for path in (root / folder).rglob("*.py"))


def all_changes(area: Area) -> list[Change]:
    return [one for path in sources(REPOSITORY, area) for one in changes_of(REPOSITORY, path)]


def reached_by_tests(tests: Sequence[str], *, keep: bool) -> dict[str, tuple[float, list[str]]]:
    """Seconds of each test that passes and the functions of all areas that it reaches.

    They are recorded unless they are for this code and these tests; ``keep`` takes any code's.
    """
    there = [one for one in tests if (REPOSITORY / one.partition("::")[0]).exists()]
    code = [path for area in AREAS.values() for path in sources(REPOSITORY, area)]
    digest = hashlib.sha256(repr(there).encode())
    for path in () if keep else (*code, *_test_files(there)):
        digest.update(path.read_bytes())
    target = CACHE / f"reached-{digest.hexdigest()[:12]}.json"
    if not target.exists():
        print(f"recording what {' '.join(there)} reach", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        tree = copied(REPOSITORY, CACHE / "tree")
        marked = mark(tree, [tree / path.relative_to(REPOSITORY) for path in code])
        log = target.with_suffix(".log")
        arguments = [one for one in OPTIONS if one != "-x"]
        status = run_pytest(tree, [*arguments, *there], [Recorder(tree, marked, target)], log)
        if not target.exists():
            sys.exit(f"The tests could not be recorded ({status}); see {log}.")
        if status:
            print(f"Some tests fail without a change and are left out; see {log}.")
    recorded = json.loads(target.read_text(encoding="utf-8"))
    return {test: (seconds, reached) for test, (seconds, reached) in recorded.items()}


def _test_files(tests: Sequence[str]) -> list[Path]:
    paths = [REPOSITORY / one.partition("::")[0] for one in tests]
    return [
        path
        for one in paths
        for path in ([one] if one.is_file() else sorted(one.rglob("*")))
        if path.suffix in (".py", ".yaml", ".json")
    ]


def try_changes(
    name: str,
    changes: Sequence[Change],
    times: dict[str, tuple[float, list[str]]],
    seconds: float,
) -> tuple[int, int]:
    """How many of the changes were noticed, and how many were tried; tells each as it comes."""
    noticed = tried = 0
    log = CACHE / f"{name}-last.log"
    passes: set[str] = set()  # without a change, so that what fails with one has noticed it
    with tempfile.TemporaryDirectory(prefix=f"mutants-{name}-") as folder:
        tree = copied(REPOSITORY, Path(folder) / "tree")
        there = collected(tree, times, log)
        times = {test: found for test, found in times.items() if test in there}
        for place, change in enumerate(changes, 1):
            where = change.path if change.where == MODULE else f"{change.path}::{change.where}"
            path = tree / change.path
            original = path.read_bytes()
            began = time.monotonic()
            while True:
                tests = chosen_tests(times, where, seconds)
                limit = 60 + 3 * sum(times[test][0] for test in tests)
                path.write_bytes(applied(original, change))
                found, test = outcome(tree, tests, limit, log)
                path.write_bytes(original)
                if not test or test in passes:
                    break
                if outcome(tree, [test], limit, log)[0] == "survived":
                    passes.add(test)
                    break
                print(f"    {test} fails without a change and is left out")
                for one in [one for one in times if one == test or one.startswith(f"{test}::")]:
                    del times[one]
            noticed += found in ("killed", "time")
            tried += found != "unknown"
            took = time.monotonic() - began
            old = original[change.start : change.end].decode()
            print(
                f"{place}/{len(changes)} {found} ({len(tests)} tests, {took:.0f} s) {change.name}"
                + (f" {test}" if found != "survived" else f"\n    {old!r}\n    {change.text!r}"),
                flush=True,
            )
    return noticed, tried


if __name__ == "__main__":
    sys.exit(main())
