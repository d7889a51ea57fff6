"""Print which files of tests took longest, as a table, from what pytest wrote with --junitxml."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LONGEST = 20


def main(path: Path) -> None:
    """Print the table; raises SystemExit where there is nothing to print."""
    if not path.exists():
        sys.exit(f"{path} is missing; run make test first.")
    suites = ElementTree.parse(path).getroot()  # noqa: S314 we have written it ourselves
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for case in suites.iter("testcase"):
        file = file_of(case.get("classname", ""))
        seconds[file] += float(case.get("time", 0))  # type: ignore[assignment]
        tests[file] += 1
    wall = sum(float(suite.get("time", 0)) for suite in suites.iter("testsuite"))
    print("| file | tests | s |\n|---|--:|--:|")
    for file, total in seconds.most_common(LONGEST):
        print(f"| `{file}` | {tests[file]:,} | {total:.0f} |")
    others = len(seconds) - LONGEST
    if others > 0:
        rest = seconds.most_common()[LONGEST:]
        count = sum(tests[file] for file, _ in rest)
        print(f"| {others} others | {count:,} | {sum(total for _, total in rest):.0f} |")
    print(f"| all, in {wall:.0f} s | {tests.total():,} | {seconds.total():.0f} |")


def file_of(classname: str) -> str:
    """The file of a test, given its module and perhaps a class in it."""
    parts = classname.split(".")
    while len(parts) > 1 and not Path(*parts).with_suffix(".py").exists():
        parts = parts[:-1]
    return "/".join(parts) + ".py"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
