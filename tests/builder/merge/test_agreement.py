"""Who is suspected where the members of a group differ."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.facts.fact import fact
from msprobe_builder.merge.values.agreement import apart, distances

RIGHT, WRONG, OTHER = [2.0, -1.0, 0.1, 3.0], [2.0, -1.0, 0.1, 4.5], [2.0, -1.0, 0.1, 6.0]


@pytest.mark.parametrize(
    ("members", "suspects"),
    [
        ([RIGHT, RIGHT, RIGHT], {}),
        ([RIGHT, WRONG], {8: None}),  # one of two: nothing tells which
        ([RIGHT, RIGHT, WRONG], {9: 9}),  # the fewer
        ([WRONG, RIGHT, RIGHT], {8: 7, 9: 7}),  # the shown one, on which all others agree
        ([WRONG, RIGHT, OTHER], {8: None, 9: None}),  # no two agree
        ([RIGHT, RIGHT, WRONG, WRONG], {9: None, 10: None}),  # as many on both sides
        ([RIGHT, WRONG, RIGHT, RIGHT, OTHER], {8: 8, 11: 11}),
    ],
)
def test_of_three_or_more_the_fewer_are_suspected(
    members: list[list[float]], suspects: dict[int, int | None]
) -> None:
    ranks = range(7, 7 + len(members))
    found = apart(np.array(members), ranks, Disagreement.REPLICA, 1e-4)
    assert {one.rank: one.suspect for one in found} == suspects
    for one in found:
        place = one.rank - 7
        assert one.shown_rank == 7
        assert one.statistics == tuple(members[place])
        assert one.note is None
        largest = max(abs(members[0][column]) for column in (0, 1, 3))
        assert one.difference == pytest.approx(
            min(1.0, abs(members[place][3] - members[0][3]) / largest)
        )


def test_a_note_tells_a_member_apart_whose_statistics_agree() -> None:
    other = fact("apart.checksum", checksum="0f")
    notes = [None, other, None]
    (found,) = apart(np.array([RIGHT] * 3), [0, 1, 2], Disagreement.REPLICA, 1e-4, notes)
    assert (found.rank, found.suspect, found.note) == (1, 1, other)


def test_distances_are_in_sizes_of_each_tensor() -> None:
    """Of many tensors each has its own size; what is infinite or NaN on one side is 1 away."""
    inf, nan = np.inf, np.nan
    shown = np.array([[2.0, 200.0, inf, nan], [0.0] * 4, [9.0] * 4, [1.0, 100.0, 5.0, 5.0]])
    own = np.array([[2.5, 200.5, inf, 0.0], [0.0] * 4, [0.0] * 4, [1.0, 100.0, 5.0, 5.0]])
    assert distances(own, shown).tolist() == pytest.approx([0.25, 0.0025, 0.0, 1.0])
