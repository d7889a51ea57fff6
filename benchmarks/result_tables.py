"""Tables of ``benchmarks/results``, written by the programs that measure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("results")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def write_tables(name: str, heading: str, tables: Sequence[Iterable[str]]) -> None:
    """Put tables, as lines of Markdown, in place of the first ones below a heading.

    ``name`` is a file of ``benchmarks/results``. Raises ValueError where the section holds fewer
    tables than are given: somebody has to say first what a new one is about.
    """
    path = RESULTS / name
    before, found, rest = path.read_text(encoding="utf-8").partition(f"# {heading}\n")
    section = "".join(itertools.takewhile(lambda line: line[0] != "#", rest.splitlines(True)))
    given = iter(["".join(f"{line}\n" for line in table) for table in tables])
    if not found or len(TABLE.findall(section)) < len(tables):
        raise ValueError(f"{path} has no {len(tables)} tables below '{heading}'.")
    written = TABLE.sub(lambda old: next(given, old[0]), section)
    path.write_text(before + found + written + rest[len(section) :], encoding="utf-8")
