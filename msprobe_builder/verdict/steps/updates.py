"""What an optimizer did to the weights between two steps, beside what it did in the reference.

Sketches are linear: those of a weight at the next step and at this one tell its update, and those
of both runs tell by how much the updates differ. Gradients that are off by a part b of their size
move an update by few times b, in no direction of its own. A difference that is a multiple of the
update itself is another rate, one along the weight another decay; what is neither, and far more
than the gradients explain, is another rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.estimates import ROUNDING, explained

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_FEWEST = 16  # elements: of fewer a direction is told by chance
_LITTLE = 10.0  # times what storing and sketching a weight rounds, that an update must be
_BEYOND = 30.0  # times what gradients are off by, which no optimizer makes of them
_SHIFTED = 3.0  # the same of a difference that has a direction
_ALONG = 0.5  # of the squares of a difference, from which on it has one
_ALIKE = 0.2  # by which weights differ that are moved by one factor
_SEVERAL = 3  # weights that no chance moves alike
_SURELY, _OF_MANY = 0.98, FLAT  # the share, and the elements, from which on one weight tells
_SHOWN = 3
_PART = 0.25  # of the weights, that must be off if it is in no direction


@dataclass(frozen=True)
class Kept:
    """The weights of one rank as a step begins with them; ``numbers`` is (2, n, 64): both sides.

    ``node`` is that of this run, ``unit`` what the coarser side rounds a stored number by.
    """

    names: list[str]
    node: Int
    elements: Int
    unit: Float
    numbers: Float


@dataclass(frozen=True)
class Moved:
    """Weights that one kind of difference has moved: the first node, and the first names.

    ``size`` is the factor, the share of its size that a weight shrinks by more than there, or the
    difference beside the update, which ``error`` is of all kinds.
    """

    kind: str
    node: int
    names: list[str]
    weights: int
    size: float
    compared: int
    error: float
    expected: float

    @property
    def told(self) -> Facts:
        """What has happened, and to which weights, if not to all."""
        if self.weights == self.compared:
            return (self._happened,)
        return self._happened, fact("update.weights", names=", ".join(self.names))

    @property
    def _happened(self) -> Fact:
        weights, compared = self.weights, self.compared
        share = _digits(100 * abs(self.size))
        if self.kind == "factor":
            factor = _digits(self.size)
            return fact("update.factor", weights=weights, compared=compared, factor=factor)
        if self.kind == "other":
            return fact("update.other", weights=weights, compared=compared, share=share)
        if self.size > 0:
            return fact("update.decay", weights=weights, compared=compared, share=share)
        return fact("update.decay.less", weights=weights, compared=compared, share=share)


@dataclass(frozen=True)
class Compared:
    """What updates tell: who was moved otherwise, if anybody, and the share that all moved alike.

    ``alike`` is 0 where one does not: off in no direction it accuses nobody, and explains nothing.
    """

    moved: Moved | None
    alike: float


def _digits(number: float) -> float:
    shown = float(f"{number:.2g}")
    return int(shown) if shown.is_integer() else shown


def compare_updates(before: Kept, after: Kept, noise: float) -> Compared:
    """The updates of the weights that both steps have.

    ``noise`` is what gradients are off by anyhow, a part of their size.
    """
    places = {name: place for place, name in enumerate(before.names)}
    there = np.array([places.get(name, -1) for name in after.names], dtype=np.int64)
    here = np.flatnonzero(there >= 0)
    here = here[after.elements[here] >= _FEWEST]
    here = here[before.elements[there[here]] == after.elements[here]]
    old, new = before.numbers[:, there[here], :FLAT], after.numbers[:, here, :FLAT]
    unit = np.maximum(before.unit[there[here]], after.unit[here])
    with np.errstate(all="ignore"):
        names = [after.names[place] for place in here.tolist()]
        updates = _Updates.of(old, new, unit, after.elements[here])
        return _compared(updates, after.node[here], names, noise)


@dataclass(frozen=True)
class _Updates:
    """By weight: the reference's update and weight, and by what the other's update differs."""

    update: Float
    weight: Float
    difference: Float
    size: Float  # of the weight
    length: Float  # of the update
    own: Float  # of this run's
    rounded: Float  # what rounding makes of it, as a part of it
    elements: Int

    @staticmethod
    def of(old: Float, new: Float, unit: Float, elements: Int) -> _Updates:
        own, update = new[0] - old[0], new[1] - old[1]
        size, length, moved = (np.linalg.norm(one, axis=1) for one in (old[1], update, own))
        rounded = np.maximum(ROUNDING, unit) * size / length
        return _Updates(update, old[1], own - update, size, length, moved, rounded, elements)

    @property
    def apart(self) -> Float:
        """The length of the difference beside that of the update."""
        return np.asarray(np.linalg.norm(self.difference, axis=1) / self.length)

    def along(self, direction: Float) -> tuple[Float, Float]:
        """The multiple of a direction that is nearest to each difference, and its share of it."""
        multiple, share = explained(self.difference, direction, np.minimum(self.elements, FLAT))
        return multiple, np.nan_to_num(share)


def _compared(updates: _Updates, node: Int, names: list[str], noise: float) -> Compared:
    apart = updates.apart
    known = np.isfinite(apart) & (updates.rounded * _LITTLE < 1)
    # A gradient of next to nothing may be nothing on one side, and moves its weight on the other.
    still = (updates.length == 0) & (updates.own == 0)
    compared = int(np.count_nonzero(known | still))
    level = np.maximum(noise, updates.rounded)
    found = list(_of_one_kind(updates, known, level))
    off = known & (apart > _BEYOND * level)
    several = int(np.count_nonzero(off))
    if not found and several >= max(2, _PART * np.count_nonzero(known)):
        found.append(("other", off, float(np.median(apart[off]))))
    alike = 0.0 if several else compared / max(1, len(node))
    if not found:
        return Compared(None, alike)
    kind, off, size = max(found, key=lambda one: int(np.count_nonzero(one[1])))
    error, expected = float(np.median(apart[off])), float(np.median(level[off]))
    moved = np.flatnonzero(off)
    first = [names[place] for place in moved[:_SHOWN].tolist()]
    node_of_first = int(node[moved].min())
    told = Moved(kind, node_of_first, first, len(moved), size, compared, error, expected)
    return Compared(told, alike)


def _of_one_kind(updates: _Updates, known: Bool, level: Float) -> Iterator[tuple[str, Bool, float]]:
    """Weights whose updates differ in one direction and by one factor, but for the noise."""
    for kind, direction in (("factor", updates.update), ("decay", updates.weight)):
        multiple, share = updates.along(direction)
        size = np.abs(multiple) * np.linalg.norm(direction, axis=1) / updates.length
        rest = updates.apart * np.sqrt(np.maximum(0.0, 1.0 - share))
        told = known & (share > _ALONG) & (size > _SHIFTED * level) & (rest < _BEYOND * level)
        if not told.any():
            continue
        middle = float(np.median(multiple[told]))
        alike = told & (np.abs(multiple - middle) <= _ALIKE * abs(middle))
        surely = alike & (share > _SURELY) & (updates.elements >= _OF_MANY)
        surely &= size > _BEYOND * level
        if np.count_nonzero(alike) >= _SEVERAL:
            yield kind, alike, 1.0 + middle if kind == "factor" else -middle
        elif surely.any():
            yield kind, surely, 1.0 + middle if kind == "factor" else -middle
