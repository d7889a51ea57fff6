"""Where in its shape a shard is cut, followed through the calls that reshape it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from msprobe_builder.dump.names import Direction
from msprobe_builder.merge.operators import PRODUCTS

_SWAPS = frozenset({"transpose", "swapaxes", "t", "T", "mT"})
_BATCHED = frozenset({"bmm", "baddbmm"})


class Cut(NamedTuple):
    """A cut along ``dimension``; ``outer`` counts what a merged dimension holds before it.

    A tensor [batch, heads, …] cut along heads and flattened to [batch · heads, …] is cut along
    dimension 0 with the batch as ``outer``.
    """

    dimension: int
    outer: int = 1


def output_cut(
    operator: str,
    direction: Direction,
    shards: Sequence[tuple[Cut | None, list[int]]],
    shape: list[int],
    numbers: Sequence[int],
) -> Cut | None:
    """The cut of an output of shape ``shape``, None when it cannot be told.

    ``shards`` are the cut inputs with their shapes, ``numbers`` the call's whole-number arguments.
    """
    known = [(cut, source) for cut, source in shards if cut is not None]
    if not known or not shape:
        return None
    cut, source = known[0]
    if direction is Direction.BACKWARD:
        return cut if source == shape else reshaped(cut, source, shape)
    if operator in _BATCHED:
        return cut if cut.dimension == 0 else None
    if operator in PRODUCTS:
        return _product(known, shape)
    if operator in _SWAPS:
        return cut._replace(dimension=_swapped(cut.dimension, len(source), numbers))
    if operator == "permute":
        order = [number % len(source) for number in numbers]
        is_order = sorted(order) == [*range(len(source))]
        return cut._replace(dimension=order.index(cut.dimension)) if is_order else None
    if len(source) == len(shape) and source[cut.dimension] == shape[cut.dimension]:
        return cut
    if operator == "embedding" and shape[: len(source)] == source:
        return cut  # a row for every word
    return reshaped(cut, source, shape)


def _product(known: Sequence[tuple[Cut, list[int]]], shape: list[int]) -> Cut | None:
    """A matrix product keeps the rows of its first factor and the columns of its second."""
    cut, source = known[0]
    if len(source) == len(shape) and source[:-1] == shape[:-1] and cut.dimension < len(shape) - 1:
        return cut
    return Cut(len(shape) - 1)


def _swapped(dimension: int, rank: int, numbers: Sequence[int]) -> int:
    one, other = (numbers[0] % rank, numbers[1] % rank) if len(numbers) > 1 else (0, rank - 1)
    return {one: other, other: one}.get(dimension, dimension)


def reshaped(cut: Cut, source: list[int], shape: list[int]) -> Cut | None:
    """The cut of the same elements in another shape."""
    if prod(source) != prod(shape):
        return cut if len(source) == len(shape) else None
    place = cut.dimension
    if 0 < place < len(shape) and cut.outer == 1 and source[:place] == shape[:place]:
        return cut
    before = prod(source[:place]) * cut.outer
    for dimension in range(len(shape)):
        outside = prod(shape[:dimension])
        if outside <= before < outside * shape[dimension]:
            return Cut(dimension, before // outside)
    return None


def split_like(cut: Cut | None, source: list[int], shape: list[int]) -> Cut | None:
    """The cut of something made of a shard by splitting or joining what follows the cut."""
    if cut is None or cut.outer != 1 or cut.dimension >= min(len(source), len(shape)):
        return None
    return cut if source[: cut.dimension] == shape[: cut.dimension] else None


def factor_cuts(
    cuts: Sequence[Cut | None],
    is_shard: Sequence[bool],
    ranks: Sequence[int],
    *,
    is_linear: bool = False,
) -> tuple[Cut | None, Cut | None]:
    """How the factors of a matrix product are cut: what is summed over must fit together.

    A shard and a replica can only be cut outside the sum. Of two shards the first decides: cut
    along its last dimension the other is cut along the summed one. The second factor of a linear
    layer is transposed.
    """
    last = ranks[1] - 1
    if not all(is_shard):
        # The second factor of a product with a whole first one keeps its sums whole.
        return None, Cut(0 if is_linear else last) if is_shard[1] else None
    if cuts[0] is not None and cuts[0].dimension == ranks[0] - 1 and ranks[1] == 2:
        return cuts[0], Cut(last if is_linear else 0)
    return cuts[0], cuts[1]


def removes_cut(cut: Cut, source: list[int], shape: list[int]) -> bool:
    """Whether a call that shrinks ``source`` to ``shape`` removed just the cut dimension."""
    removals = [
        dimension
        for dimension in range(len(source))
        if source[:dimension] + source[dimension + 1 :] == shape
    ]
    return removals == [cut.dimension]


def alike(shape: list[int], recent: Sequence[tuple[Cut, list[int]]]) -> Cut | None:
    """The cut of a tensor of unknown origin: that of recent ones of the same shape, if one.

    Without any the latest one that differs from it in one other dimension.
    """
    same = {cut for cut, other in recent if other == shape}
    if same:
        return same.pop() if len(same) == 1 else None
    for cut, other in reversed(recent):
        if len(other) != len(shape) or cut.dimension >= len(shape):
            continue
        different = [index for index in range(len(shape)) if other[index] != shape[index]]
        if len(different) == 1 and cut.dimension not in different:
            return cut
    return None
