"""Readings of how far two tensors differ, held against the same in plain numbers.

The rules are those of docs/design/verdict.md, "Readings", written down one tensor at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.metrics.comparison import Metric
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.model.observations import Observations, observe, surprise
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.small_dumps import Record
from tests.builder.verdict.columns import Run, compared, measured, rows_by_name

Array = NDArray[Any]
Pair = tuple[Record, Record]
UNIT = 2.0**-23  # of float32
WORST, MOST_SHOWN = 10.0, 1000.0


def seen_of(result: PairResult, **metrics: Metric) -> tuple[Runs, Observations]:
    assert result.comparisons is not None
    runs = runs_of(result)
    with np.errstate(all="ignore"):
        return runs, observe(runs, replace(result.comparisons, metrics=metrics))


def put_out(pairs: list[Pair]) -> PairResult:
    """Calls that are given the same, and put out the tensors of a pair."""
    sides = Run(), Run()
    for place, pair in enumerate(pairs):
        given = measured(np.random.default_rng(place + 9000).normal(size=(3, 7)))
        for side, made in zip(sides, pair, strict=True):
            side.call(f"Torch.mystery.{place}.forward", [given], [made])
    return compared(*sides)


def hides(one: Record) -> bool:
    """Whether its lowest number stands for nothing."""
    return bool(one["Min"] < -9e3 and abs(one["Min"]) > 1000 * abs(one["Max"]))


def plain_reading(debug: Record, reference: Record) -> tuple[list[float], float, float]:
    """What maximum, minimum, mean and norm say, what is told of it, and the root mean square."""
    n = math.prod(debug["shape"])
    names = ("Max", "Min", "Mean", "Norm")
    largest = max(abs(reference["Max"]), abs(reference["Min"]))
    size = reference["Norm"] / math.sqrt(n) or largest
    if hides(debug) or hides(reference):
        shown = abs(reference["Max"])
        moved = [min(WORST, abs(debug["Max"] - reference["Max"]) / shown)]
        counts = [(one["Norm"] / one["Min"]) ** 2 for one in (debug, reference)]
        beside = max(abs(one["Max"] / one["Min"]) for one in (debug, reference))
        share = abs(counts[0] - counts[1]) / max(counts)
        if share < max(1e-5, 4 * beside):
            share = 0.0
        if hides(debug) != hides(reference):
            open_one = reference if hides(debug) else debug
            share = 1.0 if open_one["Min"] > -50 else math.nan
        moved += [math.sqrt(share)] * 3
        worst = max(one for one in moved if not math.isnan(one))
        return moved, worst, shown
    if reference["Norm"] == 0 and debug["Norm"] > 0:
        return [WORST] * 4, WORST, size
    if math.isinf(debug["Max"]) != math.isinf(reference["Max"]):
        return [WORST] * 4, WORST, size
    units = [max(size, abs(reference["Max"])), max(size, abs(reference["Min"]))]
    units += [size, reference["Norm"]]
    apart = [abs(debug[name] - reference[name]) for name in names]
    moved = [
        0.0 if not one else min(WORST, one / unit) for one, unit in zip(apart, units, strict=True)
    ]
    told = [
        one / unit if one else 0.0
        for one, unit in zip(apart, (largest, largest, size, reference["Norm"]), strict=True)
    ]
    return moved, min(MOST_SHOWN, max(told)), size


def plain_is_factor(debug: Record, reference: Record, size: float) -> bool:
    """Whether three numbers or more have grown, or shrunk, by nearly one share."""
    if math.prod(debug["shape"]) < 16:
        return False
    told = [one for one in ("Max", "Min", "Mean") if abs(reference[one]) > 0.1 * size]
    shares = [debug[one] / reference[one] - 1 for one in (*told, "Norm")]
    if len(shares) < 3 or min(shares) * max(shares) <= 0:
        return False
    return bool(max(shares) - min(shares) < 0.5 * min(map(abs, shares)))


def noisy(values: Array, rng: np.random.Generator, error: float) -> Array:
    return np.asarray(values * (1 + error * rng.normal(size=values.shape)))


def plain_pair(rng: np.random.Generator, low: float, high: float, *, by: float = 0.0) -> Pair:
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 12)))
    values = rng.uniform(low, high, size=shape) * 10.0 ** rng.uniform(-4, 4)
    error = 10.0 ** rng.uniform(-6, 1.4)
    other = values * (1 + error * by) if by else noisy(values, rng, error)
    return measured(other), measured(values)


def one_factor_and_more(rng: np.random.Generator) -> Pair:
    """A common factor, and noise beside it that may be as large."""
    values = rng.normal(1.0, 1.0, size=(6, 8))
    share = 10.0 ** rng.uniform(-3, -1)
    return measured(noisy(values * (1 + share), rng, share * rng.uniform(0, 1))), measured(values)


def masked_pair(rng: np.random.Generator, *, on_both: bool) -> Pair:
    values = rng.normal(size=(6, 8)) * rng.choice([0.1, 1.0, 9.0, 40.0])
    lowest = rng.choice([-1e4, -65504.0, -1e9])
    hidden = [np.where(rng.random((6, 8)) < share, lowest, values) for share in (0.3, 0.5)]
    if on_both:
        return measured(noisy(hidden[0], rng, 1e-4)), measured(hidden[1])
    pair = measured(hidden[0]), measured(values)
    return pair if rng.random() < 0.5 else pair[::-1]


def nothing_there(rng: np.random.Generator) -> Pair:
    return measured(rng.normal(size=(4, 5))), measured(np.zeros((4, 5)))


def broken_pair(rng: np.random.Generator) -> Pair:
    values = rng.normal(size=(4, 5))
    broken = values.copy()
    broken[0, 0] = np.inf
    pair = measured(broken), measured(values)
    return pair if rng.random() < 0.5 else pair[::-1]


KINDS: dict[str, Callable[[np.random.Generator], Pair]] = {
    "of both signs": partial(plain_pair, low=-1, high=1),
    "of one sign": partial(plain_pair, low=1, high=3),
    "negative": partial(plain_pair, low=-3, high=-1),
    "a multiple": partial(plain_pair, low=-1, high=2, by=1.0),
    "a smaller multiple": partial(plain_pair, low=-1, high=2, by=-0.03),
    "a multiple and noise": one_factor_and_more,
    "masked": partial(masked_pair, on_both=True),
    "masked on one side": partial(masked_pair, on_both=False),
    "zeros": nothing_there,
    "infinite on one side": broken_pair,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_read_as_in_plain_numbers(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    pairs = [KINDS[kind](rng) for _ in range(40)]
    result = put_out(pairs)
    _, seen = seen_of(result)
    rows = rows_by_name(result)
    for place, (debug, reference) in enumerate(pairs):
        row = rows[f"Torch.mystery.{place}.forward:output.0"]
        moved, shown, size = plain_reading(debug, reference)
        np.testing.assert_allclose(seen.moved[:, row], moved, rtol=1e-9, err_msg=f"{pairs[place]}")
        known = [one for one in moved if not math.isnan(one)]
        assert seen.size[row] == pytest.approx(max(known))
        assert seen.shown[row] == pytest.approx(shown)
        assert seen.rms[row] == pytest.approx(size)
        n = math.prod(reference["shape"])
        floor = 4 * (2e-7 + 2e-13 * n)
        differs = moved[0] > 0 or moved[1] > 0 or max(moved[2], moved[3]) > floor
        assert bool(seen.differs[row]) is differs
        if kind not in ("masked", "masked on one side", "infinite on one side", "zeros"):
            assert bool(seen.is_factor[row]) is plain_is_factor(debug, reference, size)
            assert seen.peak[row] == max(abs(reference["Max"]), abs(reference["Min"]))
            smallest = min(abs(reference["Max"]), abs(reference["Min"]))
            assert seen.smallest[row] == (
                smallest if reference["Max"] * reference["Min"] > 0 else 0.0
            )
            assert (seen.norm[row], seen.mean[row], seen.elements[row]) == (
                *(reference["Norm"], reference["Mean"], n),
            )


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (1.0, 3.0), (-3.0, -0.01)])
def test_of_what_no_call_has_made_each_element_of_one_sign_is_rounded_for_itself(
    low: float, high: float
) -> None:
    rng = np.random.default_rng(5)
    values = rng.uniform(low, high, size=(6, 8))
    sides = Run(), Run()
    for side, weight in zip(sides, (other := noisy(values, rng, 1e-3), values), strict=True):
        side.call("Torch.mystery.0.forward", [measured(weight)], [measured(np.eye(3))])
    result = compared(*sides)
    _, seen = seen_of(result)
    row = rows_by_name(result)["Torch.mystery.0.forward:input.0"]
    size = np.sqrt((values**2).mean())
    for place, extreme in enumerate((np.max, np.min)):
        own = abs(extreme(values))
        unit = own if low * high > 0 else max(own, size)
        apart = abs(extreme(other) - extreme(values))
        assert seen.moved[place, row] == pytest.approx(apart / unit)


@pytest.mark.parametrize("digits", [3e-7, 1e-6, 3e-6, 1e-5])
@pytest.mark.parametrize("several", [7, 8, 30])
def test_a_recorder_is_as_coarse_as_its_sums_of_what_has_equal_extremes(
    several: int, digits: float
) -> None:
    """Nine in ten weights tell what two recorders' sums differ by, up to 20 units of float32."""
    rng = np.random.default_rng(several)
    sides, shares = (Run(), Run()), []
    for place in range(several):
        reference = measured(rng.normal(size=(5, 6)))
        share = digits * (1 + place / several)
        shares.append(share)
        for side, factor in zip(sides, (1 + share, 1.0), strict=True):
            given = {**reference, "Norm": reference["Norm"] * factor}
            side.call(f"Torch.mystery.{place}.forward", [given], [measured(np.eye(3) + place)])
    _, seen = seen_of(compared(*sides))
    usual = 2e-7 + 2e-13 * 30
    learnt = min(float(np.quantile(shares, 0.9)), 20 * UNIT) if several >= 8 else 0.0
    assert seen.resolution[0] == pytest.approx(max(usual, learnt), rel=1e-6)


@pytest.mark.parametrize("elements", [15, 16])
def test_few_elements_tell_nothing_of_a_recorder(elements: int) -> None:
    sides = Run(), Run()
    for place in range(20):
        reference = measured(np.random.default_rng(place).normal(size=elements))
        for side, factor in zip(sides, (1 + 1e-6, 1.0), strict=True):
            given = {**reference, "Norm": reference["Norm"] * factor}
            side.call(f"Torch.mystery.{place}.forward", [given], [measured(np.eye(3) + place)])
    _, seen = seen_of(compared(*sides))
    assert (seen.resolution[0] > 9e-7) == (elements == 16)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_norms_with_the_digits_of_half_precision_are_read_to_a_third_of_a_unit(
    dtype: str, side: int
) -> None:
    sides = Run(), Run()
    for place in range(10):
        record = measured(np.random.default_rng(place).normal(size=(5, 6)), dtype)
        coarse = np.array([record["Norm"]], np.float32).view(np.uint32) & 0xFFFF0000
        few = {**record, "Norm": float(coarse.view(np.float32)[0])}
        for number, one in enumerate(sides):
            given = few if number == side else record
            one.call(f"Torch.mystery.{place}.forward", [given], [measured(np.eye(3) + place)])
    result = compared(*sides)
    _, seen = seen_of(result)
    row = rows_by_name(result)["Torch.mystery.0.forward:input.0"]
    unit = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 0.0}[dtype]
    if unit:
        assert seen.resolution[row] == pytest.approx(0.3 * unit)
    else:
        assert seen.resolution[row] < 20 * UNIT * 1.01


@pytest.mark.parametrize("how_many", [0, 1, 2, 7])
def test_whole_numbers_differ_by_whole_numbers(how_many: int) -> None:
    """Sum and squares move by one at least: less is the recorder's."""
    numbers = np.arange(1000) % 7
    other = numbers.copy()
    other[:how_many] += 1
    for noise, moves in ((0.0, how_many > 0), (1e-6, how_many > 0)):
        debug, reference = measured(other, "int64"), measured(numbers, "int64")
        debug["Norm"] *= 1 + noise
        result = put_out([(debug, reference)])
        _, seen = seen_of(result)
        row = rows_by_name(result)["Torch.mystery.0.forward:output.0"]
        assert bool(seen.differs[row]) is moves
        assert bool(seen.size[row] > 0) is moves


def test_what_is_less_than_half_of_one_is_the_recorders() -> None:
    """A mean that is off by less than half of one over all elements, and by more."""
    numbers = np.arange(4096) % 100
    for share, moves in ((0.45, False), (0.6, True)):
        debug, reference = measured(numbers, "int64"), measured(numbers, "int64")
        debug["Mean"] += share / 4096
        result = put_out([(debug, reference)])
        _, seen = seen_of(result)
        row = rows_by_name(result)["Torch.mystery.0.forward:output.0"]
        # Four times the resolution of sums comes first where it is more.
        assert bool(seen.differs[row]) is moves


@pytest.mark.parametrize("metric", ["relative_difference", "euclidean_distance"])
def test_what_was_measured_element_by_element_is_known(metric: str) -> None:
    rng = np.random.default_rng(3)
    pairs = [plain_pair(rng, -1, 1) for _ in range(12)] + [masked_pair(rng, on_both=True)]
    result = put_out(pairs)
    assert result.comparisons is not None
    ours = result.comparisons.pairs
    size = len(ours.npu)
    known = rng.random(size) < 0.7
    value = 10.0 ** rng.uniform(-7, 1.5, size)
    value[1] = 0.0
    runs, seen = seen_of(result, **{metric: Metric(value, known)})
    _, without = seen_of(result)
    names = {row: name for name, row in rows_by_name(result).items()}
    for place, row in enumerate(ours.npu.tolist()):
        reference = runs.bench.table.statistics[3, int(ours.bench[place])]
        is_masked = names[row] == "Torch.mystery.12.forward:output.0"
        if not known[place] or is_masked:
            assert math.isnan(seen.exact[row])
            assert seen.size[row] == without.size[row]
            continue
        is_sketch = metric == "relative_difference"
        right = min(value[place], WORST) if is_sketch else value[place] / reference
        assert seen.exact[row] == pytest.approx(right)
        assert seen.size[row] == pytest.approx(right)
        assert seen.shown[row] == pytest.approx(right)


def plain_surprise(
    moved: list[float],
    e: float,
    n: float,
    spread: float,
    coarse: float,
    exact: float,
    multiple: bool,
) -> float:
    """The geometric mean of the two numbers that surprise most, over their error bars."""
    common = 1.0 if spread < 0.03 else 0.12
    by_chance = e * (common + 1 / math.sqrt(n)) + coarse
    bars = [e + 2e-7, e + 2e-7, by_chance, by_chance + min(1.0, e * e) / 2]
    times = [0.0 if math.isnan(one) else one / bar for one, bar in zip(moved, bars, strict=True)]
    ordered = sorted(times)
    found = math.sqrt(ordered[3] * max(1.0, ordered[2]))
    if multiple:
        found = max(found, math.sqrt(sum(one * one for one in times)))
    one = 0.0 if math.isnan(exact) else exact / (1.5 * e + 2e-7)
    found = max(found, (exact / (1.6 * e + 2e-7)) ** 3 if n >= 16 and one > 1 else one)
    return found if e < 0.5 else min(1.0, found)


def test_a_score_is_how_many_error_bars_a_pair_lies_outside() -> None:
    rng = np.random.default_rng(8)
    size = 400
    expected = 10.0 ** rng.uniform(-8, 0.5, size)
    moved = 10.0 ** rng.uniform(-8, 1, (4, size))
    moved[rng.random((4, size)) < 0.2] = np.nan
    elements = np.floor(10.0 ** rng.uniform(0, 6, size))
    mean, rms = rng.choice([0.1, 0.9994, 0.9997, 1.0], size), np.ones(size)
    exact = np.where(rng.random(size) < 0.3, 10.0 ** rng.uniform(-8, 1, size), np.nan)
    resolution, carried = 10.0 ** rng.uniform(-8, -4, (2, size))
    multiple = rng.random(size) < 0.5
    none = np.zeros(size)
    seen = Observations(
        size=none,
        shown=none,
        moved=moved,
        exact=exact,
        rms=rms,
        norm=none,
        mean=mean,
        peak=none,
        smallest=none,
        elements=elements,
        resolution=resolution,
        remains=none > 0,
        differs=none > 0,
        is_factor=multiple,
    )
    rows = np.arange(size)
    found = surprise(seen, rows, expected, carried)
    for one in range(size):
        spread = math.sqrt(max(0.0, 1 - (mean[one] / rms[one]) ** 2))
        right = plain_surprise(
            moved[:, one].tolist(),
            *(expected[one], elements[one], spread, max(resolution[one], carried[one])),
            *(exact[one], bool(multiple[one])),
        )
        assert found[one] == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("elements", [256, 4096, 65536])
@pytest.mark.parametrize("error", [1e-5, 1e-3, 3e-2])
def test_the_error_that_was_planted_is_read(error: float, elements: int) -> None:
    """Of elements that are off by e in no direction in particular."""
    rng = np.random.default_rng(elements)
    pairs = []
    for _ in range(20):
        values = rng.normal(size=elements)
        pairs.append((measured(values + error * rng.normal(size=elements)), measured(values)))
    result = put_out(pairs)
    _, seen = seen_of(result)
    rows = rows_by_name(result)
    sizes = [seen.size[rows[f"Torch.mystery.{one}.forward:output.0"]] for one in range(20)]
    assert error / 6 < np.median(sizes) < 1.5 * error
    told = np.full(20, error)
    where = np.array([rows[f"Torch.mystery.{one}.forward:output.0"] for one in range(20)])
    assert np.quantile(surprise(seen, where, told), 0.9) < 3
    assert np.median(surprise(seen, where, told / 100)) > (10 if error > 1e-4 else 5)
