"""Tensor metrics against exact arithmetic on Python numbers, for every dtype."""

from __future__ import annotations

import warnings
from dataclasses import astuple
from decimal import Decimal, localcontext
from fractions import Fraction
from math import fsum, inf, isclose, isfinite, isinf, isnan, nan, prod, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe_builder.metrics.elementwise import PERFECT, TensorErrors, tensor_errors
from msprobe_builder.metrics.tensor_file import StoredTensor, pieces

Number = int | float | complex

NUMPY_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", ">f4", ">i8", "complex64", "complex128"),
)
TORCH_DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _parts(value: Number) -> tuple[int | float, ...]:
    return (value.real, value.imag) if isinstance(value, complex) else (value, 0)


def _same(n: int | float, b: int | float) -> bool:
    return n == b or (isnan(n) and isnan(b))


def _distance(n: Number, b: Number) -> tuple[float, float]:
    """Absolute and relative error of one element, as the documentation defines them."""
    pairs = list(zip(_parts(n), _parts(b), strict=True))
    if all(_same(x, y) for x, y in pairs):
        return 0.0, 0.0
    unequal = [(x, y) for x, y in pairs if not _same(x, y)]
    if not all(isfinite(x) for pair in unequal for x in pair):
        return inf, inf
    square = sum(((Fraction(x) - Fraction(y)) ** 2 for x, y in unequal), Fraction(0))
    absolute = _decimal(square).sqrt()
    if isinf(float(absolute)) or not all(isfinite(y) for _, y in pairs):
        return float(absolute), inf
    size = _decimal(sum((Fraction(y) ** 2 for _, y in pairs), Fraction(0))).sqrt()
    return float(absolute), inf if size == 0 else float(absolute / size)


def _expected(npu: list[Number], bench: list[Number]) -> tuple[TensorErrors, list[float]]:
    """The six metrics by exact arithmetic, and all relative errors; infinity stands for NaN."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**6, -(10**6)
        errors = [_distance(n, b) for n, b in zip(npu, bench, strict=True)]
        if not any(relative for _, relative in errors):
            return PERFECT, []
        squares = sum((Decimal(absolute) ** 2 for absolute, _ in errors), Decimal(0))
        relatives = [relative for _, relative in errors]
        metrics = TensorErrors(
            cosine=_cosine(npu, bench),
            euclidean_distance=float(squares.sqrt()),
            max_abs_err=max(absolute for absolute, _ in errors),
            max_elementwise_relative_err=max(relatives),
            one_thousandth_ratio=sum(one < 0.001 for one in relatives) / len(errors),
            five_thousandths_ratio=sum(one < 0.005 for one in relatives) / len(errors),
        )
    return metrics, relatives


def _cosine(npu: list[Number], bench: list[Number]) -> float:
    vectors: list[tuple[Fraction, Fraction]] = []
    for n, b in zip(npu, bench, strict=True):
        for x, y in zip(_parts(n), _parts(b), strict=True):
            if isfinite(x) and isfinite(y):
                vectors.append((Fraction(x), Fraction(y)))
            elif not _same(x, y):
                return nan
    product = sum((x * y for x, y in vectors), Fraction(0))
    n_square = sum((x * x for x, _ in vectors), Fraction(0))
    b_square = sum((y * y for _, y in vectors), Fraction(0))
    if not n_square or not b_square:
        return 0.0
    cosine = float(_decimal(product**2 / (n_square * b_square)).sqrt())
    return -cosine if product < 0 else cosine


def _errors(npu: Any, bench: Any, size: int = 1 << 18) -> TensorErrors:
    n, b = StoredTensor(tuple(npu.shape), npu), StoredTensor(tuple(bench.shape), bench)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spaces = np.empty((2, min(size, prod(n.shape))))  # used again for each piece, as in a build
        found = ((n.piece(at, spaces[0]), b.piece(at, spaces[1])) for at in pieces(n.shape, size))
        return tensor_errors(found)


def _check(found: TensorErrors, npu: list[Number], bench: list[Number]) -> None:
    expected, relatives = _expected(npu, bench)
    if expected == PERFECT:
        assert found == PERFECT
        return
    assert found != PERFECT
    for name in ("euclidean_distance", "max_abs_err", "max_elementwise_relative_err"):
        value, exact = getattr(found, name), getattr(expected, name)
        assert (
            isclose(value, exact, rel_tol=1e-9)
            or (isinf(exact) and not isfinite(value))
            or (exact > 1e307 and value > 1e307)
        ), name
    assert isclose(found.cosine, expected.cosine, rel_tol=1e-9, abs_tol=1e-12) or (
        isnan(found.cosine) and isnan(expected.cosine)
    )
    for bound, ratio in (
        (0.001, found.one_thousandth_ratio),
        (0.005, found.five_thousandths_ratio),
    ):
        low, high = (
            sum(one < bound * factor for one in relatives) for factor in (1 - 1e-9, 1 + 1e-9)
        )
        assert low <= round(ratio * len(relatives)) <= high


@st.composite
def _bytes_of_two(draw: st.DrawFn, itemsize: int) -> tuple[bytes, bytes, tuple[int, ...]]:
    """Any two bit patterns of one shape; many elements equal, so that all mixtures occur."""
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 3), (4, 0), (2, 2, 2)]))
    element = st.binary(min_size=itemsize, max_size=itemsize)
    npu = [draw(element) for _ in range(prod(shape))]
    bench = [one if draw(st.booleans()) else draw(element) for one in npu]
    return b"".join(npu), b"".join(bench), shape


@pytest.mark.parametrize("name", NUMPY_DTYPES)
@given(data=st.data())
def test_numpy_bit_patterns(name: str, data: st.DataObject) -> None:
    dtype = np.dtype(name)
    left, right, shape = data.draw(_bytes_of_two(dtype.itemsize))
    npu, bench = (
        (np.frombuffer(one, np.uint8) % 2 if name == "bool" else np.frombuffer(one, np.uint8))
        .view(dtype)
        .reshape(shape)
        for one in (left, right)
    )
    found = _errors(npu, bench)
    _check(found, npu.ravel().tolist(), bench.ravel().tolist())


@pytest.mark.parametrize("name", TORCH_DTYPES)
@given(data=st.data())
def test_torch_bit_patterns(name: str, data: st.DataObject) -> None:
    torch = pytest.importorskip("torch")
    dtype, values = getattr(torch, name), 2 if name == "bool" else 256
    left, right, shape = data.draw(_bytes_of_two(dtype.itemsize))
    npu, bench = (
        torch.tensor([byte % values for byte in one], dtype=torch.uint8).view(dtype).reshape(shape)
        if one
        else torch.empty(shape, dtype=dtype)
        for one in (left, right)
    )
    numbers = [[one.item() for one in side.reshape(-1)] for side in (npu, bench)]
    _check(_errors(npu, bench), numbers[0], numbers[1])
    assert _errors(npu, npu) == PERFECT


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.999, 1.001, 1e-320, 1e300, -1e300, inf, -inf, nan)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SPECIAL) | st.floats(-10, 10),
            st.sampled_from(SPECIAL) | st.floats(-10, 10),
        ),
        min_size=1,
    )
)
def test_zeros_infinities_and_nan_in_any_mixture(elements: list[tuple[float, float]]) -> None:
    npu, bench = (np.array(side) for side in zip(*elements, strict=True))
    _check(_errors(npu, bench), npu.tolist(), bench.tolist())


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1))
def test_mixed_signs_of_integers(n: int, b: int) -> None:
    npu, bench = np.array([n], dtype=np.int64), np.array([b], dtype=np.uint64)
    _check(_errors(npu, bench), [n], [b])
    _check(_errors(bench, npu), [b], [n])


def test_neighbouring_large_integers_differ() -> None:
    npu, bench = np.array([2**62 + 1, 5]), np.array([2**62, 5])
    errors = _errors(npu, bench)
    assert errors.max_abs_err == 1.0
    assert errors.euclidean_distance == 1.0
    assert errors != PERFECT


@pytest.mark.parametrize(
    ("npu", "bench", "expected"),
    [
        ([inf], [-inf], TensorErrors(nan, inf, inf, inf, 0.0, 0.0)),
        ([nan], [1.0], TensorErrors(nan, nan, nan, nan, 0.0, 0.0)),
        ([1.0], [nan], TensorErrors(nan, nan, nan, nan, 0.0, 0.0)),
        ([inf, 1.0], [1.0, 1.0], TensorErrors(nan, inf, inf, inf, 0.5, 0.5)),
        ([1.0, 2.0], [inf, 2.0], TensorErrors(nan, inf, inf, inf, 0.5, 0.5)),
        ([nan, inf, 0.0, 3.0], [nan, inf, 0.0, 3.0], PERFECT),
        ([0.0, 0.0], [0.0, -0.0], PERFECT),
        ([1.0, 0.0], [0.0, 0.0], TensorErrors(0.0, 1.0, 1.0, inf, 0.5, 0.5)),
        ([0.0, 0.0], [3.0, 4.0], TensorErrors(0.0, 5.0, 4.0, 1.0, 0.0, 0.0)),
        ([2.0], [1.0], TensorErrors(1.0, 1.0, 1.0, 1.0, 0.0, 0.0)),
        ([-2.0], [2.0], TensorErrors(-1.0, 4.0, 4.0, 2.0, 0.0, 0.0)),
        ([1e300, 0.0], [0.0, 1e300], TensorErrors(0.0, 2**0.5 * 1e300, 1e300, inf, 0.0, 0.0)),
        ([1e-300, 0.0], [2e-300, 0.0], TensorErrors(1.0, 1e-300, 1e-300, 0.5, 0.5, 0.5)),
        ([100.4, 100.05], [100.0, 100.0], TensorErrors(1.0, 0.4031, 0.4, 0.004, 0.5, 1.0)),
        ([nan, 1.0, 1.0], [nan, 1.0, 2.0], TensorErrors(0.9487, 1.0, 1.0, 0.5, 2 / 3, 2 / 3)),
        ([3 + 4j], [0j], TensorErrors(0.0, 5.0, 5.0, inf, 0.0, 0.0)),
        ([1 + 1j], [1 + 1j], PERFECT),
        ([4j], [5j], TensorErrors(1.0, 1.0, 1.0, 0.2, 0.0, 0.0)),
        ([1 + 0j], [1j], TensorErrors(0.0, 2**0.5, 2**0.5, 2**0.5, 0.0, 0.0)),
        ([True, False], [True, True], TensorErrors(0.7071, 1.0, 1.0, 1.0, 0.5, 0.5)),
    ],
)
def test_documented_outcomes(
    npu: list[Number], bench: list[Number], expected: TensorErrors
) -> None:
    found = astuple(_errors(np.array(npu), np.array(bench)))
    assert found == pytest.approx(astuple(expected), rel=1e-4, nan_ok=True)


@given(
    shape=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    size=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_pieces_do_not_change_the_result(shape: tuple[int, ...], size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    npu = random.normal(size=shape) * 10.0 ** random.integers(-5, 5, shape)
    bench: NDArray[Any] = npu * random.choice([1.0, 1.0005, 1.003, 2.0], shape)
    whole, cut = astuple(_errors(npu, bench)), astuple(_errors(npu, bench, size))
    assert cut == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 40_000, 100_001])
def test_sums_of_many_elements_are_exact_to_rounding(size: int, kind: str) -> None:
    random = np.random.default_rng(size)
    bench = (random.normal(size=size) * 10.0 ** random.integers(-6, 6, size)).astype(kind)
    npu = (bench * (1 + random.normal(size=size) * 0.002)).astype(kind)
    npu[:1] += 1.0
    bench[1::7] = npu[1::7] = 0.0
    n, b = npu.astype(np.float64).tolist(), bench.astype(np.float64).tolist()
    absolute = [abs(x - y) for x, y in zip(n, b, strict=True)]
    relative = [0.0 if x == y else abs(x - y) / abs(y) for x, y in zip(n, b, strict=True)]
    lengths = (sqrt(fsum(x * x for x in side)) for side in (n, b))
    product = fsum(x * y for x, y in zip(n, b, strict=True))
    expected = TensorErrors(
        cosine=product / prod(lengths),
        euclidean_distance=sqrt(fsum(x * x for x in absolute)),
        max_abs_err=max(absolute),
        max_elementwise_relative_err=max(relative),
        one_thousandth_ratio=sum(x < 0.001 for x in relative) / size,
        five_thousandths_ratio=sum(x < 0.005 for x in relative) / size,
    )
    for found in (_errors(npu, bench), _errors(npu, bench, 1 << 15)):
        assert astuple(found) == pytest.approx(astuple(expected), rel=1e-13)


@pytest.mark.parametrize("factor", [-1.0, 0.4, -1.9, 2.1, 1e-12, 1e12])
def test_a_direction_is_exact_to_rounding_whatever_the_sizes(factor: float) -> None:
    random = np.random.default_rng(7)
    bench = random.normal(size=20_000)
    for share in (0.0, 0.001, 1.0, 1000.0):  # from one direction to any
        npu = (bench + share * random.normal(size=20_000)) * factor
        n, b = npu.tolist(), bench.tolist()
        lengths = (sqrt(fsum(x * x for x in side)) for side in (n, b))
        expected = fsum(x * y for x, y in zip(n, b, strict=True)) / prod(lengths)
        assert abs(_errors(npu, bench).cosine - expected) < 1e-15


@given(st.integers(-1000, 1000), st.integers(0, 2**32 - 1))
def test_errors_scale_with_their_tensors(power: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    bench = random.uniform(1, 2, 30) * random.choice([-1, 0, 1], 30)
    npu = bench * random.choice([1.0, 1.0005, 1.003, 2.0], 30)
    npu[0], bench[0] = 1.0, 2.0
    factor = 2.0**power
    usual, scaled = _errors(npu, bench), _errors(npu * factor, bench * factor)
    assert scaled.cosine == pytest.approx(usual.cosine, rel=1e-12)
    assert scaled.euclidean_distance == pytest.approx(
        usual.euclidean_distance * factor, rel=1e-12, abs=0
    )
    assert scaled.max_abs_err == usual.max_abs_err * factor
    assert astuple(scaled)[3:] == astuple(usual)[3:]


@given(shape=st.lists(st.integers(0, 5), max_size=4).map(tuple), size=st.integers(1, 40))
def test_pieces_cover_each_element_once(shape: tuple[int, ...], size: int) -> None:
    array = np.arange(prod(shape)).reshape(shape)
    parts = [np.asarray(array[at]).ravel() for at in pieces(shape, size)]
    assert all(len(part) <= size for part in parts)
    assert np.concatenate(parts).tolist() == list(range(prod(shape)))


def test_views_that_are_not_contiguous() -> None:
    torch = pytest.importorskip("torch")
    npu = torch.arange(24.0).reshape(4, 6).t()
    bench = torch.arange(24.0).reshape(4, 6).t().contiguous()
    assert _errors(npu, bench, 5) == PERFECT
    assert _errors(torch.ones(1).expand(3, 4), torch.ones(3, 4), 5) == PERFECT
    conjugate = torch.tensor([1 + 2j]).conj()
    assert _errors(conjugate, torch.tensor([1 - 2j])) == PERFECT
