"""What a change does to the answers: every recorded pair, judged by another state and by this one.

    python scripts/difference.py BASE [--pairs FOLDER] [--tables]

BASE is a commit; it is checked out beside this state, below .cache/difference. Pairs are the
recorded cases of tests/recorded, those of tests/data/pairs, and with --pairs every folder below
FOLDER that holds npu and bench. Pairs whose verdict differs are listed, before and after; with
--tables those too in whose databases any row differs, each table with how many rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PLACE = REPOSITORY / ".cache" / "difference"
sys.path.insert(0, str(REPOSITORY))

# Run by each state with its own modules; a pair that cannot be built is told by its name.
BUILD = """
import json, sys
from pathlib import Path
from msprobe_builder.command.main import main
print(sys.modules[main.__module__].__file__, file=sys.stderr)
for compare, out, options in json.load(open(sys.argv[1])):
    try:
        status = main(["-i", compare, "-o", out, "--workers", "1", *options])
    except BaseException as problem:
        status = repr(problem)
    if status:
        print(f"{compare}: {status}", file=sys.stderr)
"""
CHANGING = {("meta", "builder_version"), ("meta", "created_at"), ("meta", "packed_at")}
LEFT_OUT = {"packed_column", "text", "sqlite_sequence", "sqlite_stat1"}


class Pair(NamedTuple):
    """A comparison: its name, its compare.json, further options of msprobe-build."""

    name: str
    compare: Path
    options: tuple[str, ...]


def main() -> int:
    """Print what differs; 0 where nothing does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="a commit")
    parser.add_argument("--pairs", type=Path, help="a folder of further pairs")
    parser.add_argument("--tables", action="store_true", help="compare all rows as well")
    options = parser.parse_args()
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    pairs = [*recorded(), *of_data(), *(of_folder(options.pairs) if options.pairs else ())]
    base = PLACE / "base"
    git = ("git", "-C", str(REPOSITORY))
    subprocess.run([*git, "worktree", "prune"], check=True)
    subprocess.run([*git, "worktree", "add", "-qf", "--detach", base, options.base], check=True)
    try:
        states = {"base": base, "now": REPOSITORY}
        running = [build_all(pairs, state, label) for label, state in states.items()]
        for process in running:
            process.wait()
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", base], check=True)
    different = sum(told(pair, tables=options.tables) for pair in pairs)
    print(f"{different} of {len(pairs)} pairs differ.")
    return int(different > 0)


def recorded() -> Iterator[Pair]:
    """Those of tests/recorded."""
    from tests.recorded.case import cases
    from tests.recorded.judge import request_of
    from tests.recorded.test_recorded import unpacked

    for case in cases():
        folder = PLACE / "pairs" / case.name
        folder.mkdir(parents=True)
        dumps = None if case.archive is None else unpacked(case.archive)
        yield Pair(case.name, request_of(case, dumps, folder), case.options)


def of_data() -> Iterator[Pair]:
    """Those of tests/data/pairs that hold both sides."""
    place = PLACE / "data"
    for archive in sorted((REPOSITORY / "tests" / "data" / "pairs").glob("*.tar.xz")):
        with tarfile.open(archive) as opened:
            opened.extractall(place, filter="data")
    yield from of_folder(place)


def of_folder(folder: Path) -> Iterator[Pair]:
    """Every folder below it that holds npu and bench."""
    for npu in sorted(folder.rglob("npu")):
        if not (npu.parent / "bench").is_dir():
            continue
        name = str(npu.parent.relative_to(folder))
        place = PLACE / "pairs" / folder.name / name
        place.mkdir(parents=True)
        compare = place / "compare.json"
        paths = {f"{side}_path": str((npu.parent / side).resolve()) for side in ("npu", "bench")}
        compare.write_text(json.dumps(paths | {"is_print_compare_log": False}), encoding="utf-8")
        yield Pair(f"{folder.name}/{name}", compare, ())


def built(pair: Pair, state: str) -> Path | None:
    """The database that a state has made of a pair."""
    return next((pair.compare.parent / f"out_{state}").glob("*.vis.db"), None)


def build_all(pairs: list[Pair], state: Path, label: str) -> subprocess.Popen[bytes]:
    """Start building every pair with the modules of a state, ``base`` or ``now``."""
    requests = PLACE / f"{label}.json"
    requests.write_text(
        json.dumps(
            [
                (str(pair.compare), str(pair.compare.parent / f"out_{label}"), pair.options)
                for pair in pairs
            ]
        ),
        encoding="utf-8",
    )
    with (PLACE / f"{label}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", BUILD, str(requests)],
            cwd=PLACE,
            env={**os.environ, "PYTHONPATH": str(state)},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def told(pair: Pair, *, tables: bool) -> bool:
    """Whether a pair differs; prints how."""
    databases = [built(pair, state) for state in ("base", "now")]
    if databases[0] is None and databases[1] is None:
        return False  # refused by both: what tests merge, say
    if databases[0] is None or databases[1] is None:
        state = "now" if databases[0] else "base"
        print(f"{pair.name}: not built by {state}, see {PLACE}/{state}.log")
        return True
    before, after = (verdict(one) for one in databases if one)
    lines = []
    if before != after:
        lines += [f"  before  {one}" for one in before if one not in after]
        lines += [f"  after   {one}" for one in after if one not in before]
        lines = lines or ["  the order of its suspects"]
    if tables:
        rows = [contents(one) for one in databases if one]
        for table in sorted(rows[0].keys() & rows[1].keys()):
            if count := sum(((rows[0][table] - rows[1][table]) | Counter()).values()):
                lines.append(f"  {table}: {count} of {rows[0][table].total()} rows")
    if lines:
        print(pair.name, *lines, sep="\n")
    return bool(lines)


def verdict(database: Path) -> list[str]:
    """The conclusion and the suspects, a line each."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT conclusion FROM verdict WHERE step IS NULL").fetchall()
        return [str(conclusion) for (conclusion,) in found] + [
            f"{overall}. {'strong' if strength == 2 else 'weak'} {cause} {name}"
            for overall, strength, cause, name in connection.execute(
                "SELECT overall, strength, cause, name FROM suspect JOIN node_name USING (node_id)"
                " WHERE overall IS NOT NULL ORDER BY overall"
            )
        ]


def contents(database: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of each table, texts instead of their numbers, what changes by itself left out."""
    result = {}
    with closing(sqlite3.connect(database)) as connection:
        texts = dict(connection.execute("SELECT text_id, value FROM text"))
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in names:
            if table in LEFT_OUT:
                continue
            references = {
                column
                for _, _, to, column, *_ in connection.execute(f"PRAGMA foreign_key_list({table})")
                if to == "text"
            }
            cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608
            columns = [one[0] for one in cursor.description]
            result[table] = Counter(
                tuple(
                    texts.get(value) if column in references else value
                    for column, value in zip(columns, row, strict=True)
                )
                for row in cursor
                if (table, row[0]) not in CHANGING
            )
    return result


if __name__ == "__main__":
    raise SystemExit(main())
