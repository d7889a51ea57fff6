"""Windows of random trends, against what stands in them looked up value by value."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given

from msprobe_builder.database.trends.open import STATISTICS
from msprobe_builder.database.trends.write import Target, TrendWriter
from tb_graph_ascend.problems import ProblemError
from tb_graph_ascend.query import trend_window
from tb_graph_ascend.query.trend_window import Window, read_columns, read_moves
from tests.small_graphs import RANDOMS

NUMBERS = (*(0.0, 1.0, -1.0, 2.5, -4.0, 3.0) * 2, *(math.nan,) * 5, math.inf, -math.inf)
Values = dict[tuple[str, int, int], dict[str, float]]  # of a target's name, a rank and a step


def written(random: Random, connection: sqlite3.Connection) -> tuple[list[str], Values]:
    """The names of the targets in their order, and the values that were written."""
    writer = TrendWriter(connection)
    names = random.sample("abcd", random.randint(1, 4))
    targets = {name: writer.target(Target("weight", name, None, None)) for name in names}
    values: Values = {}
    steps = sorted(random.sample(range(30), random.randint(1, 12)))
    for name, rank, step in product(names, range(random.randint(1, 3)), steps):
        if random.random() < 0.8:
            here = {one: random.choice(NUMBERS) for one in STATISTICS}
            here = {one: value for one, value in here.items() if random.random() < 0.9}
            row = np.array([[here.get(one, math.nan) for one in STATISTICS]])
            missing = np.array([[one not in here for one in STATISTICS]])
            place = np.array([step]), np.array([targets[name]])
            writer.values(rank, *place, row, missing)
            values[name, rank, step] = here
    writer.finish({"kind": "monitor"})
    return names, values


def difference(own: float, other: float, kind: str) -> float:
    if own == other or (math.isnan(own) and math.isnan(other)):
        return 0.0
    if not (math.isfinite(own) and math.isfinite(other)):
        return math.nan
    return (own - other) / (1 if kind == "absolute" else max(abs(own), abs(other)))


def farthest(values: list[float]) -> float:
    """The first of those that are farthest from zero; NaN and infinity are."""
    return max(values, key=lambda value: math.inf if math.isnan(value) else abs(value))


@given(RANDOMS)
def test_a_column_holds_what_is_farthest_from_zero_in_its_steps(random: Random) -> None:
    with closing(sqlite3.connect(":memory:")) as one, closing(sqlite3.connect(":memory:")) as two:
        (names, own), (_, other) = written(random, one), written(random, two)
        for other_values in (None, other) * 8:
            targets = random.sample(range(len(names)), random.randint(1, len(names)))
            ranks = random.sample(range(4), random.randint(1, 4))
            first, last = sorted(random.choices(range(30), k=2))
            window = Window(
                random.choice(STATISTICS), tuple(targets), tuple(ranks), first, last,
                random.choice((1, 2, 3, 30, 30)), random.choice(("relative", "absolute")),
            )  # fmt: skip
            found = read_columns(one, None if other_values is None else two, window)
            check(window, names, own, other_values, *found)
            moves = read_moves(one, None if other_values is None else two, window)
            everything = replace(window, columns=30)
            columns = read_columns(one, None if other_values is None else two, everything)
            check_moves(moves.tolist(), columns[1], is_difference=other_values is not None)


def check_moves(moves: list[float], columns: trend_window.Values, *, is_difference: bool) -> None:
    for move, values, there in zip(moves, *columns, strict=True):
        known = values[there].tolist()
        if not all(map(math.isfinite, known)):
            is_still = not is_difference and not any(map(math.isfinite, known))
            assert move == (0 if is_still else math.inf)
        elif not any(known):
            assert move == 0
        elif is_difference:
            assert move == max(map(abs, known))
        else:
            assert move == pytest.approx(
                (max(known) - min(known)) / math.hypot(*known) * len(known) ** 0.5
            )


def check(
    window: Window,
    names: list[str],
    own: Values,
    other: Values | None,
    starts: list[int],
    columns: trend_window.Values,
) -> None:
    steps = sorted({step for _, _, step in own if window.first_step <= step <= window.last_step})
    width = max(1, math.ceil(len(steps) / window.columns))
    bins = [steps[at : at + width] for at in range(0, len(steps), width)]
    assert starts == [steps_of[0] for steps_of in bins]
    found, there = columns
    assert found.shape == there.shape == (len(window.targets), len(window.ranks), len(bins))
    for (row, target), (line, rank), (at, steps_of) in product(
        enumerate(window.targets), enumerate(window.ranks), enumerate(bins)
    ):
        known = []
        for step in steps_of:
            place = names[target], rank, step
            value = own.get(place, {}).get(window.statistic)
            if value is not None and other is None:
                known.append(value)
            elif value is not None and other is not None:
                subtrahend = other.get(place, {}).get(window.statistic)
                if subtrahend is not None:
                    known.append(difference(value, subtrahend, window.difference))
        assert there[row, line, at] == bool(known)
        if known:
            np.testing.assert_equal(found[row, line, at], farthest(known))


def test_a_target_that_is_not_there_and_a_window_too_large_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        writer = TrendWriter(connection)
        target = writer.target(Target("weight", "a", None, None))
        steps = np.arange(6)
        writer.values(0, steps, np.full(6, target), np.ones((6, len(STATISTICS))))
        writer.finish({})
        monkeypatch.setattr(trend_window, "MOST_CELLS", 6)
        for targets, ranks, code in (
            ((0,), (0,), ""),
            ((1,), (0,), "unknown_target"),
            ((0,), (0, 1), "window_too_large"),
        ):
            window = Window("norm", targets, ranks, 0, 5, 10, "relative")
            if not code:
                assert read_columns(connection, None, window)[0] == steps.tolist()
                continue
            with pytest.raises(ProblemError) as caught:
                read_columns(connection, None, window)
            assert caught.value.problem.code == code


def test_of_many_values_evenly_chosen_steps_tell_what_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trend_window, "_MOST_MOVES", 1)
    with closing(sqlite3.connect(":memory:")) as connection:
        writer = TrendWriter(connection)
        for name, late in (("still", 1.0), ("rising", 2.0)):
            target = np.full(100, writer.target(Target("weight", name, None, None)))
            values = np.ones((100, len(STATISTICS)))
            values[50:] = late
            writer.values(0, np.arange(100), target, values)
        writer.finish({"kind": "monitor"})
        window = Window("norm", (0, 1), (0,), 0, 99, 1, "relative")
        still, rising = read_moves(connection, None, window)
        assert still == 0 < rising
