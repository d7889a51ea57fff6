"""Errors of two tensors element by element, in float64, piece by piece.

With n an element of the run under debug and b the same element of the reference:

    absolute error = |n - b|              relative error = |n - b| / |b|

Two equal elements, two NaN and two equal infinities included, have errors 0. Against b = 0 the
relative error is infinite. An element that is NaN or infinite on one side only, or infinite on
both with opposite signs, is wrong: its errors are NaN or infinite.

Integers and bool are subtracted exactly. Complex elements are compared by modulus; cosine takes
a complex vector as a real one of twice the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isnan, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # one dimension; int64, uint64, float64 or complex128
Float = NDArray[np.float64]

# Relative errors that elements are counted below: the thousandth ratios.
WITHIN_ONE, WITHIN_FIVE = 0.001, 0.005


@dataclass(frozen=True)
class TensorErrors:
    """In the order of TENSOR_METRICS."""

    cosine: float
    euclidean_distance: float
    max_abs_err: float
    max_elementwise_relative_err: float
    one_thousandth_ratio: float
    five_thousandths_ratio: float


PERFECT = TensorErrors(1.0, 0.0, 0.0, 0.0, 1.0, 1.0)


def tensor_errors(
    pieces: Iterable[tuple[Array, Array]], part_of: PartOf | None = None
) -> TensorErrors:
    """Errors of two tensors of one shape, given as corresponding pieces; empty is equal.

    The first of two pieces may be overwritten. ``part_of`` computes a piece elsewhere (device.py),
    :func:`part_errors` when left out.
    """
    part_of = part_of or part_errors
    return _total([part_of(n, b) for n, b in pieces if len(n)])


class Squares(NamedTuple):
    """The sum ``scale² · total``; squares neither overflow nor vanish."""

    scale: float
    total: float


class Part(NamedTuple):
    """What one piece contributes."""

    size: int
    is_equal: bool
    within_one: int
    within_five: int
    absolute: float
    relative: float
    distance: Squares
    npu: Squares
    bench: Squares
    product: float  # inner product of npu / npu.scale and bench / bench.scale


PartOf = Callable[[Array, Array], Part]


def part_errors(n: Array, b: Array) -> Part:
    """What one piece contributes, by numpy; ``n`` may be overwritten."""
    if n.dtype.kind in "iu" and b.dtype.kind in "iu":
        equal, absolute, relative = _integer_errors(n, b)
        npu, bench = n.astype(np.float64), b.astype(np.float64)
    else:
        columns = 2 if "c" in n.dtype.kind + b.dtype.kind else 1
        if columns == 1:
            n, b = (np.asarray(side, dtype=np.float64) for side in (n, b))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                usual = _usual_errors(n, b)
            if usual is not None:
                return usual
        npu, bench = _components(n, columns), _components(b, columns)
        equal_parts = (npu == bench) | (np.isnan(npu) & np.isnan(bench))
        equal, absolute, relative = _float_errors(npu, bench, equal_parts)
        for side in (npu, bench):  # equal NaN and infinities have no direction
            side[equal_parts & ~np.isfinite(side)] = 0.0
    npu_squares, npu = _squares(npu.ravel())
    bench_squares, bench = _squares(bench.ravel())
    with np.errstate(invalid="ignore", over="ignore"):
        product = float((npu * bench).sum())  # not @: BLAS would start threads of its own
    return Part(
        size=len(equal),
        is_equal=bool(equal.all()),
        within_one=int(np.count_nonzero(relative < WITHIN_ONE)),
        within_five=int(np.count_nonzero(relative < WITHIN_FIVE)),
        absolute=float(absolute.max()),
        relative=float(relative.max()),
        distance=_squares(absolute)[0],
        npu=npu_squares,
        bench=bench_squares,
        product=product,
    )


def _usual_errors(n: Float, b: Float) -> Part | None:
    """The same of finite real numbers of usual sizes, which nearly all are, in few passes.

    None of others: what is not finite, or so large or small that squares would not be numbers.
    """
    squares, bench_squares = _inner(n, n), _inner(b, b)
    if not (_is_usual(squares, n) and _is_usual(bench_squares, b)):
        return None
    npu, bench = (Squares(float(one > 0), one) for one in (squares, bench_squares))
    size = len(n)
    # |n - b|² = |n|² + |b|² - 2 n·b, which loses nothing where both are of about one size.
    are_alike = squares < 4 * bench_squares < 16 * squares
    product = 0.0 if are_alike else _inner(n, b)
    difference = np.subtract(n, b, out=n)  # no third column, which the cache would not hold
    total = _inner(difference, difference)
    largest = max(float(difference.max()), -float(difference.min()))
    if largest == 0:
        return Part(size, True, size, size, 0.0, 0.0, Squares(0.0, 0.0), npu, bench, squares)
    distance = Squares(1.0, total) if total > _SMALLEST else _squares(difference)[0]
    if are_alike:
        product = (squares + bench_squares - total) / 2
    relative = np.divide(difference, b, out=difference)
    np.abs(relative, out=relative)
    worst = float(relative.max())
    if isnan(worst):  # 0 against 0
        relative[np.isnan(relative)] = 0.0
        worst = float(relative.max())
    within_one, within_five = (
        size if worst < limit else int(np.count_nonzero(relative < limit))
        for limit in (WITHIN_ONE, WITHIN_FIVE)
    )
    return Part(size, False, within_one, within_five, largest, worst, distance, npu, bench, product)


# Sums of squares between these lose nothing: what vanishes beside them is far below a rounding.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**1000


def _is_usual(squares: float, x: Float) -> bool:
    """Whether the sum of the squares of x tells its size; that of zeros alone does."""
    return _SMALLEST < squares < _LARGEST or (squares == 0 and not x.any())


_AT_ONCE = 1 << 13  # elements: of more than 10,000 BLAS would start threads of its own


def _inner(x: Float, y: Float) -> float:
    """The inner product."""
    if len(x) <= _AT_ONCE:
        return float(np.dot(x, y))
    rest = len(x) % _AT_ONCE
    whole = len(x) - rest
    rows = x[:whole].reshape(-1, 1, _AT_ONCE), y[:whole].reshape(-1, _AT_ONCE, 1)
    total = float(np.add.reduce(np.matmul(*rows), axis=None))
    return total + float(np.dot(x[whole:], y[whole:])) if rest else total


def _components(x: Array, columns: int) -> Float:
    """A writable copy of shape (n, columns): the real part, then the imaginary one."""
    if columns == 1:
        return np.array(x, dtype=np.float64).reshape(-1, 1)
    result = np.zeros((len(x), columns))
    result[:, 0] = x.real
    if x.dtype.kind == "c":
        result[:, 1] = x.imag
    return result


def _float_errors(
    n: Float, b: Float, equal_parts: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], Float, Float]:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        difference = np.where(equal_parts, 0.0, n - b)
        if n.shape[1] == 1:
            equal, absolute, size = equal_parts[:, 0], np.abs(difference[:, 0]), np.abs(b[:, 0])
            relative = absolute / size
        else:
            equal = np.asarray(equal_parts.all(axis=1))
            absolute = np.hypot(*difference.T)
            # Divided first, so that the modulus of a large element does not overflow.
            size = np.abs(b).max(axis=1)
            relative = np.hypot(*(difference.T / size)) / np.hypot(*(b.T / size))
            relative[size == 0] = inf
    relative[np.isinf(size) & ~np.isnan(absolute)] = inf
    relative[equal] = 0.0
    return equal, absolute, relative


def _integer_errors(n: Array, b: Array) -> tuple[NDArray[np.bool_], Float, Float]:
    """Exact also where float64 has not enough digits: signs apart, magnitudes as uint64."""
    npu, bench = _magnitude(n), _magnitude(b)
    opposite = (n < 0) != (b < 0)
    between = np.maximum(npu, bench) - np.minimum(npu, bench)
    size = bench.astype(np.float64)
    absolute = np.where(opposite, npu.astype(np.float64) + size, between.astype(np.float64))
    equal = absolute == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(equal, 0.0, absolute / size)
    return equal, absolute, relative


def _magnitude(x: Array) -> NDArray[np.uint64]:
    if x.dtype.kind == "u":
        return x.astype(np.uint64)
    unsigned = x.astype(np.int64).view(np.uint64)
    return np.where(x < 0, ~unsigned + np.uint64(1), unsigned)


def _squares(x: Float) -> tuple[Squares, Float]:
    """Sum of squares of x, and x divided by its largest magnitude."""
    scale = float(np.abs(x).max())
    if scale == 0 or not np.isfinite(scale):
        return Squares(scale, 0.0 if scale == 0 else 1.0), x
    scaled = x / scale
    return Squares(scale, float((scaled * scaled).sum())), scaled


def _total(parts: list[Part]) -> TensorErrors:
    size = sum(part.size for part in parts)
    if all(part.is_equal for part in parts):
        return PERFECT
    scale, total = _sum_squares([part.distance for part in parts])
    return TensorErrors(
        cosine=_cosine(parts),
        euclidean_distance=scale * sqrt(total),
        max_abs_err=_largest([part.absolute for part in parts]),
        max_elementwise_relative_err=_largest([part.relative for part in parts]),
        one_thousandth_ratio=sum(part.within_one for part in parts) / size,
        five_thousandths_ratio=sum(part.within_five for part in parts) / size,
    )


def _cosine(parts: list[Part]) -> float:
    npu = _sum_squares([part.npu for part in parts])
    bench = _sum_squares([part.bench for part in parts])
    if not np.isfinite([npu.scale, bench.scale]).all():
        return nan
    if npu.scale == 0 or bench.scale == 0:
        return 0.0
    product = sum(
        part.product * (part.npu.scale / npu.scale) * (part.bench.scale / bench.scale)
        for part in parts
    )
    return max(-1.0, min(1.0, product / sqrt(npu.total) / sqrt(bench.total)))


def _sum_squares(parts: list[Squares]) -> Squares:
    scale = _largest([part.scale for part in parts])
    if scale == 0 or not np.isfinite(scale):
        return Squares(scale, 1.0)
    return Squares(scale, sum(part.total * (part.scale / scale) ** 2 for part in parts))


def _largest(values: list[float]) -> float:
    return nan if any(isnan(value) for value in values) else max(values)
