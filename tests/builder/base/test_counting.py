"""Counts in sentences: one rank, two ranks."""

import pytest

from msprobe_builder.base.counting import counted


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks")]
)
def test_one_alone_is_singular(count: int, shown: str) -> None:
    assert counted(count, "rank") == shown
