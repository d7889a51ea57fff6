"""Text from a dump made fit for a terminal."""

from __future__ import annotations

LONGEST = 200


def printable(text: str) -> str:
    """``text`` on one line without control characters, cut in the middle when it is long."""
    shown = visible(text)
    if len(shown) <= LONGEST:
        return shown
    half = LONGEST // 2
    return f"{shown[:half]}…{shown[-half:]}"


def visible(text: str) -> str:
    """``text`` on one line; what would move the cursor or change colours is written out."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
