"""What differs between a node and its nearest candidate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.match.nearest import View
from msprobe_builder.match.places import class_of
from msprobe_builder.match.signature import Signatures, differing, equal_counts

Int = NDArray[np.int64]

_SHOWN = 3


def differences(view: View, nodes: Int, others: Int, texts: Texts) -> list[Fact | None]:
    """How the parameters of each node differ from those of its candidate, None if they do not."""
    own, other = view.own.signatures, view.other.signatures
    result: list[Fact | None] = [None] * len(nodes)
    counts = equal_counts(own, other, nodes, others)
    for place in np.flatnonzero(~counts).tolist():
        left, right = _numbers(own, nodes[place]), _numbers(other, others[place])
        result[place] = fact("detail.against", own=left, other=right)
    equal = np.flatnonzero(counts)
    type_differs, shape_differs = differing(own, other, nodes[equal], others[equal])
    for place in equal[type_differs | shape_differs].tolist():
        found = list(_parameters(own, other, int(nodes[place]), int(others[place]), texts))
        if len(found) > _SHOWN:
            found[_SHOWN:] = [fact("detail.more", count=len(found) - _SHOWN)]
        result[place] = fact("detail.parameters", differences=found)
    return result


def _numbers(of: Signatures, node: int) -> Fact:
    return fact("detail.numbers", inputs=int(of.inputs[node]), outputs=int(of.outputs[node]))


def _parameters(own: Signatures, other: Signatures, i: int, j: int, texts: Texts) -> Iterator[Fact]:
    for row, other_row in zip(
        range(own.start[i], own.start[i + 1]),
        range(other.start[j], other.start[j + 1]),
        strict=True,
    ):
        for left, right in (
            (own.type_id[row], other.type_id[other_row]),
            (own.shape_id[row], other.shape_id[other_row]),
        ):
            if left != right:
                name = texts.values[own.name_id[row]]
                both = {"own": _word(left, texts), "other": _word(right, texts)}
                yield fact("detail.parameter", name=name, **both)
                break


def _word(text_id: int, texts: Texts) -> Fact | str:
    return fact("detail.nothing") if text_id < 0 else texts.values[text_id]


class Ancestors:
    """Where the ancestors of two nodes of the same name begin to differ."""

    def __init__(self, view: View) -> None:
        self._own, self._other = view.own.tree, view.other.tree
        self._known: dict[tuple[int, int], Fact | None] = {(-1, -1): None}

    def difference(self, node: int, other: int) -> Fact | None:
        """The lowest ancestors with different names."""
        trail = []
        pair = int(self._own.parent[node]), int(self._other.parent[other])
        while pair not in self._known:
            trail.append(pair)
            i, j = pair
            if i < 0 or j < 0 or self._own.names[i] != self._other.names[j]:
                both = {"own": self._name(i, own=True), "other": self._name(j, own=False)}
                self._known[pair] = fact("detail.below", **both)
                break
            pair = int(self._own.parent[i]), int(self._other.parent[j])
        found = self._known[pair]
        self._known.update(dict.fromkeys(trail, found))
        return found

    def _name(self, node: int, *, own: bool) -> Fact | str:
        names = (self._own if own else self._other).names
        return names[node] if node >= 0 else fact("detail.nothing")


def other_class(view: View, node: int, other: int) -> Fact:
    """The classes of two modules at one place."""
    left, right = view.own.tree.parsed[node], view.other.tree.parsed[other]
    return fact("detail.class", own=class_of(left), other=class_of(right))
