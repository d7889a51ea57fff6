"""Whether a tensor that was sent is the one that was received, told from its statistics."""

from __future__ import annotations

from math import inf, nan

import pytest

from msprobe_builder.link.calls import Leaf

Numbers = tuple[float | None, float | None, float | None, float | None]
SENT: Numbers = (2.0, -4.0, 0.5, 10.0)


def leaf(
    high: float | None = 2.0,
    low: float | None = -4.0,
    mean: float | None = 0.5,
    norm: float | None = 10.0,
    *,
    dtype: str = "torch.float32",
    md5: str | None = None,
) -> Leaf:
    return Leaf(dtype, (high, low, mean, norm), md5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        ("torch.float32", 1e-5),
        ("torch.float64", 1e-5),
        ("torch.int64", 1e-5),
        ("torch.bfloat16", 2e-2),
        ("torch.float16", 2e-2),
        ("torch.float8_e4m3fn", 2e-2),
        ("BFloat16", 2e-2),
    ],
)
@pytest.mark.parametrize("is_sender", [True, False])
def test_mean_and_norm_may_differ_by_the_rounding_of_the_type(
    dtype: str, tolerance: float, is_sender: bool
) -> None:
    """A norm is measured against itself, a mean against the largest element, which is 4 here."""
    sent = leaf(dtype=dtype) if is_sender else leaf()
    for factor, expected in ((0.9, True), (1.1, False)):
        away = tolerance * factor
        for mean, norm in (
            (0.5, 10.0 * (1 - away)),
            (0.5 + 4 * away, 10.0),
            (0.5 - 4 * away, 10.0),
        ):
            of_type = "torch.float32" if is_sender else dtype
            got = leaf(mean=mean, norm=norm, dtype=of_type)
            assert sent.same_data(got) is expected
            assert got.same_data(sent) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (leaf(), True),
        (leaf(high=2.0000001), False),
        (leaf(low=-4.0000001), False),
        (leaf(norm=11.0), False),
        (leaf(mean=-0.5), False),
        (leaf(high=nan), False),
        (leaf(norm=inf), False),
        # What one side did not record says nothing; the rest is enough.
        (leaf(high=None), True),
        (leaf(None, None, None, 10.0), True),
        (leaf(None, None, None, 11.0), False),
        (leaf(None, None, None, None), None),
        (leaf(dtype="torch.bfloat16", high=2.01), False),
        # Checksums decide where both have one.
        (leaf(md5="a"), True),
    ],
)
def test_extremes_are_equal_or_the_data_are_not(other: Leaf, expected: bool | None) -> None:
    assert leaf().same_data(other) is expected
    assert other.same_data(leaf()) is expected


def test_checksums_decide() -> None:
    assert leaf(md5="a").same_data(leaf(high=3.0, md5="a")) is True
    assert leaf(md5="a").same_data(leaf(md5="b")) is False


def test_the_same_that_is_no_number_is_the_same() -> None:
    assert leaf(nan, nan, nan, nan).same_data(leaf(nan, nan, nan, nan)) is True
    assert leaf(inf, -inf, nan, inf).same_data(leaf(inf, -inf, nan, inf)) is True
    assert leaf(inf).same_data(leaf(-inf)) is False
