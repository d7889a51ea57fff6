"""Call stacks: captured as code positions, turned into text when a file is written.

A stack is a chain of segments. While a module runs, the frames below it do not move, so a call
inside it only walks the frames up to the module and refers to the rest by number.
"""

from __future__ import annotations

import linecache
import threading
from pathlib import Path
from types import CodeType, FrameType

_OWN_PACKAGE = str(Path(__file__).parent.parent)
_HIDDEN_ENDS = tuple(
    f"torch{gap}{place}" for gap in "/\\" for place in ("overrides.py", f"fx{gap}interpreter.py")
)
NO_STACK = -1
HIDDEN_NAME = "<recorded>"  # of code that stands in for a function where it was written


class Stacks:
    """Interned stacks of one step."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._segments: list[tuple[tuple[tuple[CodeType, int], ...], int]] = []
        self._lines: dict[int, list[str]] = {}
        self._lock = threading.Lock()

    def capture(
        self, frame: FrameType | None, base: FrameType | None = None, below: int = NO_STACK
    ) -> int:
        """Number of the stack from ``frame`` down to ``base``, which stands on ``below``."""
        key: list[int] = []
        innermost = frame
        while frame is not None:
            key += (id(frame.f_code), frame.f_lasti)
            if frame is base:
                break
            frame = frame.f_back
        else:
            # The base is not below this call (another thread): the walk saw the whole stack.
            below = NO_STACK
        key.append(below)
        numbered = tuple(key)
        number = self._numbers.get(numbered)
        if number is None:
            positions = _positions(innermost, len(key) // 2)
            with self._lock:
                number = self._numbers.setdefault(numbered, len(self._segments))
                if number == len(self._segments):
                    self._segments.append((positions, below))
        return number

    def lines(self, number: int) -> list[str]:
        """The text of a stack, innermost frame first."""
        found = self._lines.get(number)
        if found is None:
            positions, below = self._segments[number]
            found = [_text(code, at) for code, at in positions if not _is_hidden(code)]
            if below != NO_STACK:
                found = found + self.lines(below)
            self._lines[number] = found
        return found


def _positions(frame: FrameType | None, length: int) -> tuple[tuple[CodeType, int], ...]:
    """Where ``frame`` and those below it stand, ``length`` of them."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < length:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def _is_hidden(code: CodeType) -> bool:
    name = code.co_filename
    return (
        code.co_name == HIDDEN_NAME or name.startswith(_OWN_PACKAGE) or name.endswith(_HIDDEN_ENDS)
    )


# By identity, because hashing a code object reads all of it; the code is kept so that it lives.
_texts: dict[tuple[int, int], tuple[CodeType, str]] = {}


def _text(code: CodeType, position: int) -> str:
    found = _texts.get((id(code), position))
    if found is None:
        number = _line_number(code, position)
        source = linecache.getline(code.co_filename, number).strip()
        text = f"File {code.co_filename}, line {number}, in {code.co_name}, \n {source}"
        found = _texts[id(code), position] = (code, text)
    return found[1]


def _line_number(code: CodeType, position: int) -> int:
    for start, end, line in code.co_lines():
        if start <= position < end and line is not None:
            return line
    return code.co_firstlineno
