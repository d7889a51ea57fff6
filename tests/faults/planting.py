"""One known fault in an otherwise correct model.

A model asks :func:`planted` where a fault may stand; it gets the wrong value when that fault is
the active one. The line that the fault makes wrong carries the comment ``# culprit: NAME``, so the
truth is found in the recorded call stacks and no name of a call is written down anywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_MARK = re.compile(r"#\s*culprit:\s*(.+)$")
_active: list[tuple[str, int | None]] = []


@contextmanager
def fault(name: str | None, layer: int | None = None) -> Iterator[None]:
    """Make ``name`` wrong in layer ``layer``, or in all layers; nothing without a name."""
    if name is None:
        yield
        return
    _active.append((name, layer))
    try:
        yield
    finally:
        _active.pop()


def planted(name: str, right: T, wrong: T, layer: int | None = None) -> T:
    """``wrong`` when fault ``name`` is active in this layer, else ``right``."""
    if _active and _active[-1][0] == name:
        chosen = _active[-1][1]
        if chosen is None or layer is None or chosen == layer:
            return wrong
    return right


def culprit_lines(folder: Path, name: str) -> set[tuple[str, int]]:
    """File names and line numbers of the statements that fault ``name`` makes wrong."""
    found = set()
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        marked = [
            number
            for number, line in enumerate(text.splitlines(), 1)
            if (mark := _MARK.search(line)) and name in [one.strip() for one in mark[1].split(",")]
        ]
        if marked:
            for first, last in _statements(text):
                if any(first <= number <= last for number in marked):
                    found |= {(path.name, number) for number in range(first, last + 1)}
    return found


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """First and last line of each statement that holds no others."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node.lineno, node.end_lineno or node.lineno
