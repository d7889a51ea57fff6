"""Tensors of one fingerprint stand together, in the order in which they were made."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.graph.producers import _grouped


@pytest.mark.parametrize(
    "fingerprint",
    [
        [7 << 60, 3, 7 << 60, 3, 2**64 - 1, 3],
        [9 << 40, (9 << 40) | 1, 9 << 40, (9 << 40) | 1],  # alike but for the last bit
        [],
    ],
)
def test_equal_fingerprints_keep_their_order(fingerprint: list[int]) -> None:
    column = np.array(fingerprint, dtype=np.uint64)
    expected = sorted(range(len(fingerprint)), key=lambda place: fingerprint[place])
    places, others = _grouped(column)
    assert places.tolist() == expected
    ordered = sorted(fingerprint)
    assert others.tolist() == [one != ordered[at - 1] or not at for at, one in enumerate(ordered)]
