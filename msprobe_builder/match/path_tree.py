"""Layer paths as a tree, so that long paths are walked part by part and never copied."""

from __future__ import annotations

from collections.abc import Iterable

from msprobe_builder.match.places import Path

ROOT = 0
OUTSIDE = -1


class PathTree:
    """Beginnings of paths, numbered; the empty one is ROOT."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._children: dict[tuple[int, str], int] = {}
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> int:
        """Number of ``path``, which then is in the tree with all its beginnings."""
        place = ROOT
        for part in path:
            place = self._children.setdefault((place, part), len(self._children) + 1)
        return place

    def step(self, place: int, parts: Iterable[str]) -> int:
        """The number reached from ``place``, OUTSIDE when the tree does not lead there."""
        for part in parts:
            place = self._children.get((place, part), OUTSIDE)
        return place

    def __contains__(self, path: Path) -> bool:
        return self.step(ROOT, path) != OUTSIDE
