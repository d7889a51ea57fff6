"""Long sentences as lines of a terminal."""

from __future__ import annotations

import textwrap

from msprobe_builder.base.printable import printable

_WIDTH = 100


def wrapped(title: str, text: str) -> list[str]:
    """Lines behind a title of at most 9 characters, with nothing that moves the cursor."""
    shown = " ".join(map(printable, text.split()))
    lines = textwrap.wrap(shown, _WIDTH - 10, break_long_words=False, break_on_hyphens=False)
    return [f"{title if not number else '':<9} {line}" for number, line in enumerate(lines)]
