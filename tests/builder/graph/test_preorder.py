"""Pre-order as columns, against one node after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.graph import preorder
from msprobe_builder.graph.preorder import extents, ordered


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Parents, -1 at the root, in any order; and places of all."""
    count = draw(st.integers(0, 12))
    shape = [draw(st.integers(-1, node - 1)) for node in range(count)]
    number = draw(st.permutations(range(count)))
    parents = [-1] * count
    for node, above in enumerate(shape):
        parents[number[node]] = -1 if above < 0 else number[above]
    return parents, draw(st.permutations(range(count)))


@given(forests(), st.sampled_from([0, 1, 1000]))
def test_nodes_follow_their_parents(forest: tuple[list[int], list[int]], deepest: int) -> None:
    parents, place = forest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preorder, "_DEEPEST", deepest)
        nodes, above, end, depth = ordered(
            np.array(parents, dtype=np.int64), np.array(place, dtype=np.int64)
        )
    expected: list[int] = []

    def visit(node: int) -> None:
        expected.append(node)
        below = [one for one, parent in enumerate(parents) if parent == node]
        for one in sorted(below, key=place.__getitem__):
            visit(one)

    visit(-1)
    assert nodes.tolist() == expected
    where = {node: number for number, node in enumerate(expected)}
    assert above.tolist() == [-1, *(where[parents[node]] for node in expected[1:])]
    ends, depths = extents(above.tolist())
    assert (end.tolist(), depth.tolist()) == (ends.tolist(), depths.tolist())
