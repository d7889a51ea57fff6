"""The side that many replicas are compared with: merged once in each process, then kept."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.graph.side import Side
from msprobe_builder.texts import Texts


class Keep(NamedTuple):
    """Which side of a job others are compared with as well, and its name among all of them."""

    side: int
    name: str


@dataclass(frozen=True)
class Kept:
    """A side as it was read, with the texts and the findings of reading it."""

    name: str
    side: Side
    texts: Texts
    found: list[Diagnostic]


# At most one, so that a process holds no more than one model of each side.
_kept: list[Kept] = []


def recall(keep: Keep | None) -> Kept | None:
    """What this process has kept under that name; anything else is given up.

    Its texts are a copy, which can grow with those of the other side.
    """
    if not _kept or keep is None or _kept[0].name != keep.name:
        forget()
        return None
    return Kept(keep.name, _kept[0].side, copy(_kept[0].texts), _kept[0].found)


def retain(keep: Keep, side: Side, texts: Texts, found: list[Diagnostic]) -> None:
    """Keep a side in place of the one before; later texts are not kept with it."""
    _kept[:] = [Kept(keep.name, side, copy(texts), list(found))]


def forget() -> None:
    """Keep nothing any longer."""
    _kept.clear()
