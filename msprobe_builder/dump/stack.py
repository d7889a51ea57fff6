"""stack.json: which call was made from where.

Two forms exist: ``{name: [line, …]}`` and, with equal stacks stored once,
``{"0": [[name, …], [line, …]], …}``. Line 0 is the innermost frame; a line reads
``File <path>, line <n>, in <function>, \\n <source>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.limits import LONGEST_STACK_LINE
from msprobe_builder.dump.numbers_of_names import NumbersOfNames

Int = NDArray[np.integer[Any]]

# Who calls through them is meant; models of other packages are somebody's code.
_FRAMEWORKS = ("/torch/", "/torch_npu/", "/mindspore/", "/msprobe")
_NUMBER = re.compile(r"[0-9]{1,9}\Z")


class Frame(NamedTuple):
    """One line of a stack; only ``source`` is set when the line has another shape."""

    file: str | None
    line: int | None
    function: str | None
    source: str | None


@dataclass(frozen=True)
class Stacks:
    """Distinct stacks as tuples of frames, innermost first, and the stack of each name."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=list)
    of_name: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0

    def compact(self) -> Stacks:
        """The same in little memory."""
        if isinstance(self.of_name, NumbersOfNames):
            return self
        return replace(self, of_name=NumbersOfNames(self.of_name))

    def of_calls(
        self, stems: Sequence[str], stem: Int, kind: Int, direction: Int, call: Int
    ) -> Int:
        """The stack of each call, whose name is given in parts, -1 without."""
        of_name = self.compact().of_name
        assert isinstance(of_name, NumbersOfNames)
        return of_name.of_calls(stems, stem, kind, direction, call)


def parse_frame(text: str) -> Frame:
    """Take one stack line apart."""
    head, newline, source = text.lstrip().partition("\n")
    file, of_line, rest = head.removeprefix("File ").partition(", line ")
    number, of_function, function = rest.partition(", in ")
    is_frame = head.startswith("File ") and file and of_line and of_function
    if not is_frame or not _NUMBER.match(number) or len(text) > LONGEST_STACK_LINE:
        return Frame(None, None, None, text.strip())
    function = function.rstrip().removesuffix(",").rstrip()
    return Frame(file, int(number), function, source.strip() or None if newline else None)


def format_frame(frame: Frame) -> str:
    """The inverse of :func:`parse_frame`."""
    if frame.file is None:
        return frame.source or ""
    place = f"File {frame.file}, line {frame.line}, in {frame.function}"
    return place if frame.source is None else f"{place}, \n {frame.source}"


@lru_cache(maxsize=1 << 12)
def is_framework(file: str) -> bool:
    """Whether a file is of a framework, of what records it, or of Python itself."""
    path = f"/{file}".replace("\\", "/")
    if any(part in path for part in _FRAMEWORKS):
        return True
    return "/lib/python" in path and "-packages/" not in path


def read_stacks(content: Any, known_names: dict[str, str] | None = None) -> Stacks:
    """Stacks of a parsed stack.json; entries of another shape are counted in ``skipped``.

    Names that are known, as those of the hierarchy, are the same objects.
    """
    of_text = {} if known_names is None else known_names
    stacks: list[tuple[Frame, ...]] = []
    of_name: dict[str, int] = {}
    known: dict[tuple[str, ...], int] = {}
    frames: dict[str, Frame] = {}
    skipped = 0
    for key, entry in content.items():
        names, lines = _split(key, entry)
        if names is None:
            skipped += 1
            continue
        texts = tuple(lines)
        stack = known.get(texts)
        if stack is None:
            stack = known[texts] = len(stacks)
            for text in texts:
                if text not in frames:
                    frames[text] = parse_frame(text)
            stacks.append(tuple(frames[text] for text in texts))
        for name in names:
            of_name[of_text.get(name, name)] = stack
    return Stacks(stacks, of_name, skipped)


def _split(key: str, entry: Any) -> tuple[list[str] | None, list[str]]:
    if not isinstance(entry, list):
        return None, []
    if len(entry) == 2 and isinstance(entry[0], list) and isinstance(entry[1], list):
        names, lines = entry
        if all(isinstance(text, str) for text in names + lines):
            return names, lines
        return None, []
    if all(isinstance(line, str) for line in entry):
        return [key], entry
    return None, []


def stack_path(directory: Path) -> Path:
    """Where the stacks of a dump lie."""
    return directory / "stack.json"
