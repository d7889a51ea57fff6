"""Two splits of one model, neither of which has it whole.

A weight that one side cuts in more parts than the other is smaller there along the dimension in
which it is cut, and of one size where it is not. One rank of each side shows it before anything is
merged. Classes of well-known frameworks and distributed tensors tell more, so where there are some
nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import Source
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.wholes import Shape, has_known_layers, whole_shapes
from msprobe_builder.merge.ranks.replica_source import ReplicaSource

Sources: TypeAlias = tuple[ReplicaSource, ReplicaSource]


def told_by_each_other(sources: Sources, read: Callable[[Source, Texts], Side]) -> Sources:
    """The sources with the shapes of the whole model, where two splits of tensors tell them."""
    own, other = sources
    parts = own.layout.tp, other.layout.tp
    if 1 in parts or parts[0] == parts[1]:
        return sources
    shapes: list[dict[str, Shape]] = []
    for source in (own, other):
        found: dict[str, Shape] = {}
        for stage in dict.fromkeys((0, source.layout.pp - 1)):  # what stands before and behind
            side = read(source.sources[source.replica.ranks[stage][0][0]], Texts())
            if has_known_layers(side):
                return sources
            found |= whole_shapes(side)
        shapes.append(found)
    wholes = {
        key: whole
        for key, shape in shapes[0].items()
        if (whole := _whole(shape, shapes[1].get(key, ()), parts)) is not None
    }
    return replace(own, wholes=wholes), replace(other, wholes=wholes)


def _whole(own: Shape, other: Shape, parts: tuple[int, int]) -> Shape | None:
    """The shape of a weight of which the ranks of two splits have these."""
    differ = [
        place for place, sizes in enumerate(zip(own, other, strict=False)) if len({*sizes}) > 1
    ]
    if len(own) != len(other) or len(differ) > 1:
        return None
    if not differ:
        return own
    [place] = differ
    if own[place] * parts[0] != other[place] * parts[1]:
        return None
    return (*own[:place], own[place] * parts[0], *own[place + 1 :])
