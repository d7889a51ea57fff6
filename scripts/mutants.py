"""Change the code in one place at a time and see whether a test notices.

    python scripts/mutants.py [--sample 100] [--seed 1] [--only PATTERN]

What is changed, and which tests run, stands in pyproject.toml under ``tool.mutmut``. All changes
take days of computing, so a random sample of them is tried; the same seed gives the same sample.
The score is the share that made a test fail, or run into the limit of its time; survivors are
listed, ``mutmut show NAME`` shows one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

PLACE = Path("mutants")
NOTICED = frozenset({"killed", "timeout", "segfault", "caught by type check"})


def main() -> int:
    """Try a sample; 0 when it was tried, whatever its score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=100, help="how many changes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", help="pattern of the names of changes")
    options = parser.parse_args()

    # Asked for a change that does not exist it makes them all and finds out what tests run.
    run_mutmut("run", "none", stdout=subprocess.DEVNULL)
    names = [name for name in change_names() if fnmatch.fnmatch(name, options.only)]
    if not names:
        sys.exit(f"No change has a name like {options.only!r}; see the folder {PLACE}.")
    chosen = random.Random(options.seed).sample(names, min(options.sample, len(names)))  # noqa: S311
    if status := run_mutmut("run", *chosen):
        return status
    report(chosen, len(names))
    return 0


def run_mutmut(*arguments: str, stdout: int | None = None) -> int:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, check=False, stdout=stdout).returncode


def change_names() -> list[str]:
    """All changes that can be made."""
    found: list[str] = []
    for path in sorted(PLACE.rglob("*.meta")):
        found += json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return sorted(found)


def report(chosen: list[str], possible: int) -> None:
    """Print the score of each package and the names of the survivors."""
    listed = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    wanted = set(chosen)
    status = {
        name: word
        for name, _, word in (line.strip().partition(": ") for line in listed.stdout.splitlines())
        if name in wanted
    }
    tried: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for name, word in status.items():
        package = name.partition(".x")[0].rpartition(".")[0]
        for key in (package, "all"):
            tried[key] += 1
            noticed[key] += word in NOTICED
    print(f"\n{len(status)} of {possible} changes")
    for package in sorted(tried):
        share = noticed[package] / tried[package]
        print(f"{package:40} {noticed[package]:4} of {tried[package]:4} noticed, {share:.0%}")
    for name, word in sorted(status.items()):
        if word not in NOTICED:
            print(f"{word:20} {name}")


if __name__ == "__main__":
    sys.exit(main())
