"""Where in its shape a shard is cut, followed through the calls that reshape it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from msprobe_builder.dump.names import Direction
from msprobe_builder.merge.flow.operators import is_product
from msprobe_builder.operators.operator import Operator


class Cut(NamedTuple):
    """A cut along ``dimension``; ``outer`` counts what a merged dimension holds before it.

    A tensor [batch, heads, …] cut along heads and flattened to [batch · heads, …] is cut along
    dimension 0 with the batch as ``outer``. Where that is ``PER_EXPERT``, the weights of all
    experts of a rank are one matrix and each of them is cut: the order of its elements cannot be
    told.
    """

    dimension: int
    outer: int = 1


PER_EXPERT = 0


def output_cut(
    operator: Operator,
    direction: Direction,
    shards: Sequence[tuple[Cut | None, list[int]]],
    shape: list[int],
    numbers: Sequence[int],
    *,
    joins_batch: bool = False,
) -> Cut | None:
    """The cut of an output of shape ``shape``, None when it cannot be told.

    ``shards`` are the cut inputs with their shapes, ``numbers`` the call's whole-number arguments.
    """
    known = [(cut, source) for cut, source in shards if cut is not None]
    if not known or not shape:
        return None
    cut, source = known[0]
    if direction is Direction.BACKWARD:
        if source == shape:
            return cut
        before = broadcast_from(cut, source, shape)
        return before[1] if before else reshaped(cut, source, shape, joins_batch=joins_batch)
    if "batched" in operator.shards:
        return cut if cut.dimension == 0 else None
    if is_product(operator):
        return _product(known, shape)
    if "swap" in operator.shards:
        return cut._replace(dimension=_swapped(cut.dimension, len(source), numbers))
    if "order" in operator.shards:
        order = [number % len(source) for number in numbers]
        is_order = sorted(order) == [*range(len(source))]
        return cut._replace(dimension=order.index(cut.dimension)) if is_order else None
    if len(source) == len(shape) and source[cut.dimension] == shape[cut.dimension]:
        return cut
    if "rows" in operator.shards and shape[: len(source)] == source:
        return cut  # a row for every word
    if len(source) == len(shape) and "view" not in operator.shards and prod(source) == prod(shape):
        return cut  # ranks exchange one dimension for another, such as rows for heads
    return reshaped(cut, source, shape, joins_batch=joins_batch)


def _product(known: Sequence[tuple[Cut, list[int]]], shape: list[int]) -> Cut | None:
    """A matrix product keeps the rows of its first factor and the columns of its second."""
    cut, source = known[0]
    if len(source) == len(shape) and source[:-1] == shape[:-1] and cut.dimension < len(shape) - 1:
        return cut
    return Cut(len(shape) - 1)


def _swapped(dimension: int, rank: int, numbers: Sequence[int]) -> int:
    one, other = (numbers[0] % rank, numbers[1] % rank) if len(numbers) > 1 else (0, rank - 1)
    return {one: other, other: one}.get(dimension, dimension)


def reshaped(
    cut: Cut, source: list[int], shape: list[int], *, joins_batch: bool = False
) -> Cut | None:
    """The cut of the same elements in another shape.

    A rank that holds a single head has a dimension of size 1, which can vanish into the one before
    it as well as into the one behind: ``joins_batch`` says that heads became part of the batch.
    """
    if cut.outer == PER_EXPERT:  # [experts, …] has the dimension one further behind
        is_view = len(shape) == len(source) + 1
        return Cut(cut.dimension + 1) if is_view else None
    if prod(source) != prod(shape):
        return cut if _differ_there_alone(cut.dimension, source, shape) else None
    place = cut.dimension
    is_single = source[place] == cut.outer
    before = prod(source[:place]) * cut.outer
    if is_single and joins_batch and len(shape) < len(source):
        ends = [prod(shape[: dimension + 1]) for dimension in range(len(shape))]
        own = [dimension for dimension, end in enumerate(ends) if end == before]
        return Cut(own[-1], shape[own[-1]]) if own else None
    if 0 < place < len(shape) and cut.outer == 1 and source[:place] == shape[:place]:
        return cut
    starts = [prod(shape[:dimension]) for dimension in range(len(shape))]
    if is_single and cut.outer > 1:
        own = [d for d, start in enumerate(starts) if start == before and shape[d] == 1]
        if own:
            return Cut(own[0])
    for dimension, start in enumerate(starts):
        if start <= before < start * shape[dimension]:
            return Cut(dimension, before // start)
    return None


def _differ_there_alone(dimension: int, source: list[int], shape: list[int]) -> bool:
    """Whether two shapes are equal in one dimension, or in all others."""
    if len(source) != len(shape):
        return False
    others = [place for place in range(len(shape)) if place != dimension]
    is_same = source[dimension] == shape[dimension]
    return is_same or all(source[place] == shape[place] for place in others)


def summed_cut(
    equation: str, cuts: Sequence[Cut | None], shapes: Sequence[list[int]]
) -> tuple[bool, Cut | None] | None:
    """Of a sum by indices (einsum): whether the cut is summed over, and where it is else.

    ``cuts`` are those of all factors, None of one that is whole. None when it cannot be told.
    """
    taken, arrow, put_out = equation.replace(" ", "").partition("->")
    terms = taken.split(",")
    fits = len(terms) == len(shapes) and all(
        len(term) == len(shape) for term, shape in zip(terms, shapes, strict=True)
    )
    if not arrow or "." in equation or not fits:
        return None
    known = {term[cut.dimension] for term, cut in zip(terms, cuts, strict=True) if cut is not None}
    if len(known) != 1 or any(cut is not None and cut.outer != 1 for cut in cuts):
        return None
    [index] = known
    place = put_out.find(index)
    return (True, None) if place < 0 else (False, Cut(place))


def takes_batch_first(operator: Operator, shape: list[int], numbers: Sequence[int]) -> bool:
    """Whether a call is one of those between views [batch · heads, …] of three dimensions."""
    if len(shape) != 3:
        return False
    is_swap = "swap" in operator.shards and [*numbers] == [0, 1]
    return "batched" in operator.shards or is_swap


def split_like(cut: Cut | None, source: list[int], shape: list[int]) -> Cut | None:
    """The cut of something made of a shard by splitting or joining what follows the cut."""
    if cut is None or cut.outer != 1 or cut.dimension >= min(len(source), len(shape)):
        return None
    if cut.dimension == 0 and source[0] != shape[0]:
        return None  # rows are not split
    return cut if source[: cut.dimension] == shape[: cut.dimension] else None


def factor_cuts(
    cuts: Sequence[Cut | None],
    is_shard: Sequence[bool],
    ranks: Sequence[int],
    *,
    is_linear: bool = False,
    is_grouped: bool = False,
) -> tuple[Cut | None, Cut | None]:
    """How the factors of a matrix product are cut: what is summed over must fit together.

    A shard and a replica can only be cut outside the sum. Of two shards the first decides: cut
    along its last dimension the other is cut along the summed one. In linear functions that is
    the last dimension of the second factor, the weight; in grouped ones the weights of all experts
    are one factor, and the summed dimension is the last but one.
    """
    summed, kept = (ranks[1] - 1, 0) if is_linear else (0, ranks[1] - 1)
    if is_grouped and ranks[1] == 3:
        summed, ranks = 1, [ranks[0], 2]
    if not all(is_shard):
        # The second factor of a product with a whole first one keeps its sums whole.
        return None, Cut(kept) if is_shard[1] else None
    if cuts[0] is not None and cuts[0].dimension == ranks[0] - 1 and ranks[1] == 2:
        return cuts[0], Cut(summed)
    if is_linear and cuts[0] is not None and ranks[1] == 2:
        return cuts[0], Cut(kept)  # rows of a sequence, which the function gathers itself
    return cuts[0], cuts[1]


def shrunk(
    cut: Cut, source: list[int], shape: list[int], numbers: Sequence[int]
) -> tuple[bool, Cut | None]:
    """Whether a call that shrinks ``source`` to ``shape`` removed the cut, and where it is else.

    Neither when it cannot be told. ``numbers`` are the call's whole-number arguments: of equal
    dimensions they name one.
    """
    if not shape:
        return True, None
    if len(source) == len(shape):
        is_kept = source[cut.dimension] == shape[cut.dimension]
        return not is_kept, cut if is_kept else None
    removals = [
        dimension
        for dimension in range(len(source))
        if source[:dimension] + source[dimension + 1 :] == shape
    ]
    named = {number % len(source) for number in numbers}.intersection(removals)
    removed = named or set(removals)
    if cut.dimension in removed:
        return len(removed) == 1, None
    left = {cut.dimension - (dimension < cut.dimension) for dimension in removed}
    return False, Cut(left.pop()) if len(left) == 1 else None


def broadcast_from(cut: Cut, source: list[int], shape: list[int]) -> tuple[bool, Cut | None] | None:
    """As ``shrunk`` for the gradient of what was broadcast from ``shape`` to ``source``.

    None when it was not.
    """
    offset = len(source) - len(shape)
    pairs = [*zip(source[max(offset, 0) :], shape, strict=False)]
    if offset < 0 or source == shape or any(own not in (size, 1) for size, own in pairs):
        return None
    place = cut.dimension - offset
    is_summed = place < 0 or shape[place] != source[cut.dimension]
    return is_summed, None if is_summed else Cut(place)


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
