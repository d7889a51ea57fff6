"""What the two sides of a comparison are called: by the user, else by their folders."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msprobe_builder.base.printable import visible

LONGEST_NAME = 40  # characters
_GENERIC = re.compile(r"(step|rank|proc)\d*|dump\.json|in_memory|\.{0,2}")


def side_name(text: str) -> str:
    """A name fit to be shown: on one line, without control characters, cut in the middle."""
    shown = " ".join(visible(text[: 2 * LONGEST_NAME]).split())
    if len(shown) <= LONGEST_NAME and len(text) <= 2 * LONGEST_NAME:
        return shown
    half = LONGEST_NAME // 2
    return f"{shown[:half]}…{visible(text[-half:])[-half + 1 :]}"


def names_of_folders(npu: str, bench: str = "") -> tuple[str, str]:
    """The last folder of each path that tells both apart; empty where none does.

    Steps and ranks are called alike everywhere, so they give a name only where nothing above does.
    """
    whole = _parts(npu), _parts(bench)
    cut = _without_generic(whole[0]), _without_generic(whole[1])
    sides = cut if cut[0] != cut[1] else whole
    while all(len(one) > 1 for one in sides) and sides[0][-1] == sides[1][-1]:
        sides = sides[0][:-1], sides[1][:-1]
    first, second = (side_name(one[-1]) if one and one[-1].strip(".") else "" for one in sides)
    return (first, second) if first != second else ("", "")


def _parts(path: str) -> list[str]:
    return [one for one in re.split(r"[/\\]", path) if one]


def _without_generic(parts: Sequence[str]) -> list[str]:
    end = len(parts)
    while end and _GENERIC.fullmatch(parts[end - 1]):
        end -= 1
    return list(parts[:end])
