"""Long sentences as lines of a terminal."""

from __future__ import annotations

import re
import unicodedata

from msprobe_builder.base.printable import printable
from msprobe_builder.facts.fact import Argument
from msprobe_builder.facts.wording import tell

_WIDTH = 100
_TITLE = 10
# Chinese may go on in the next line behind each of its signs, but for what ends a clause.
_SIGN = r"[\u2e80-\u2fff\u3003-\u9fff]"
_PIECE = re.compile(rf"\s*(?:{_SIGN}|[^\s\u2e80-\u2fff\u3003-\u9fff]+)")


def wrapped(title: Argument, said: Argument) -> list[str]:
    """Lines behind a title of at most 9 columns, with nothing that moves the cursor."""
    shown = " ".join(map(printable, tell(said).split()))
    lines = [""]
    for piece in _PIECE.findall(shown):
        if width(lines[-1]) + width(piece) > _WIDTH - _TITLE:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
    return [f"{titled(title if not number else '')}{line}" for number, line in enumerate(lines)]


def line(title: Argument, said: Argument) -> str:
    """One line behind a title of at most 9 columns, however long."""
    return f"{titled(title)}{tell(said)}"


def titled(title: Argument) -> str:
    """A title as the first columns of a line, with at least one blank behind it."""
    return f"{padded(title, _TITLE - 1)} "


def padded(said: Argument, columns: int) -> str:
    """What is said, with blanks behind it up to so many columns."""
    word = tell(said)
    return word + " " * (columns - width(word))


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
