"""Routes of trends: what of a window is answered, and what is refused."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.trend.places import losses_of
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import EXAMPLE, Ask, client_of
from tests.plugin.example import as_older_trend, write_example_trend

TREND = "runs/example.trend.db"
WINDOW = {"targets": "0-1", "ranks": "0,1", "first": "0", "last": "9", "columns": "100"}


@pytest.fixture
def trends(logdir: Path) -> Ask:
    write_example_trend(logdir / TREND)
    return client_of(logdir)


def values(ask: Ask, **given: str) -> tuple[pb.TrendValues, Any]:
    answer = ask("trend_values", **{"file": TREND, **WINDOW, **given})
    assert answer.status_code == 200, answer.data
    message = pb.TrendValues.FromString(answer.data)
    shape = message.targets, message.ranks, len(message.first_step)
    there = np.frombuffer(message.there, dtype=np.uint8).reshape(shape)
    found = np.array(message.values).reshape(shape)
    return message, np.where(there == 1, found, -1.0)


def test_files_and_axes(trends: Ask) -> None:
    files = pb.Trends.FromString(trends("trends").data).files
    assert [file.name for file in files] == [TREND]
    axes = pb.Trend.FromString(trends("trend", file=TREND).data)
    assert (list(axes.steps), list(axes.ranks)) == (list(range(10)), [0, 1])
    kinds = [axes.kinds[kind] for kind in axes.kind]
    assert list(zip(kinds, axes.names, strict=True)) == [
        ("weight", "layers.0.weight"),
        ("activation", "layers.0"),
    ]
    assert axes.statistics[0] == "norm"
    assert [axes.groups[group] for group in axes.group] == ["layers.0", "layers.0"]


def test_an_older_file_has_no_changes_and_all_else(logdir: Path, trends: Ask) -> None:
    write_example_trend(logdir / "runs" / "older.trend.db")
    as_older_trend(logdir / "runs" / "older.trend.db")
    older = {"file": "runs/older.trend.db"}
    for given, last in ((older, "nans"), ({"file": TREND}, "change")):
        assert pb.Trend.FromString(trends("trend", **given).data).statistics[-1] == last
    np.testing.assert_array_equal(values(trends, **older)[1], values(trends)[1])
    assert (values(trends, statistic="change")[1] == 1).all()
    for given in (older, {"other": older["file"]}):
        assert (values(trends, statistic="change", **given)[1] == -1).all(), "nothing was recorded"


def test_what_moves_is_told(trends: Ask) -> None:
    answer = trends("trend_moves", **{"file": TREND, **WINDOW, "last": "1", "ranks": "0"})
    moves = pb.TrendMoves.FromString(answer.data).moves
    assert list(moves) == pytest.approx([1 / math.sqrt(2.5)] * 2)  # of 1 and 2
    answer = trends("trend_moves", **{"file": TREND, "other": TREND, **WINDOW})
    assert list(pb.TrendMoves.FromString(answer.data).moves) == [0, 0]


@pytest.mark.parametrize(
    ("kind", "name", "is_loss"),
    [
        ("forward", "Functional.cross_entropy.0:output.0", True),
        ("forward", "Functional.cross_entropy.0:input.0", False),
        ("forward", "Module.criterion.CrossEntropyLoss.0:output.0", True),
        ("forward", "Tensor.mean.0:output.0", False),
        ("backward", "Functional.cross_entropy.0:output.0", False),
        ("activation", "criterion", True),
        ("activation", "heads.aux_loss", True),
        ("activation", "lossless.proj", False),
        ("weight", "loss.weight", False),
    ],
)
def test_a_loss_is_told_by_what_makes_it(kind: str, name: str, is_loss: bool) -> None:
    assert losses_of([kind], [name]) == [0] * is_loss


def test_a_window_holds_its_values(trends: Ask) -> None:
    message, found = values(trends)
    assert list(message.first_step) == list(range(10))
    for rank in range(2):
        assert found[0, rank].tolist() == [1 + step + 10 * rank for step in range(10)]
        assert math.isnan(found[1, rank, 7])
    _, found = values(trends, targets="1", ranks="1,5", first="3", last="4", statistic="mean")
    assert found.tolist() == [[[1, 1], [-1, -1]]]  # there is no rank 5


def test_steps_are_put_together_by_what_is_farthest_from_zero(trends: Ask) -> None:
    message, found = values(trends, targets="0-1", ranks="0", columns="4")
    assert list(message.first_step) == [0, 3, 6, 9]
    assert found[0, 0].tolist() == [3, 6, 9, 10]
    assert np.isnan(found[1, 0]).tolist() == [False, False, True, False]


def test_the_difference_of_two(trends: Ask, logdir: Path) -> None:
    other = logdir / "runs" / "other.trend.db"
    write_example_trend(other, ranks=1)
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("UPDATE value SET norm = 2 * norm WHERE step = 4")
        connection.execute("UPDATE value SET nan_flags = 1, norm = NULL WHERE step = 5")
        # Numbers of targets are those of their own file.
        connection.execute("UPDATE target SET target_id = 1 - target_id + 10")
        connection.execute("UPDATE target SET target_id = target_id - 10")
        connection.execute("UPDATE value SET target_id = 11 - target_id")
        connection.execute("UPDATE value SET target_id = target_id - 10")
    given = {"other": "runs/other.trend.db", "ranks": "0-1"}
    _, found = values(trends, **given)
    assert np.nan_to_num(found[0, 0], nan=7).tolist() == [0, 0, 0, 0, -0.5, 7, 0, 0, 0, 0]
    assert found[1, 0, 7] == 0  # NaN on both sides
    assert (found[:, 1] == -1).all()  # the other has one rank
    _, found = values(trends, difference="absolute", **given)
    assert found[0, 0, 4] == -5


def test_the_graphs_of_a_place(trends: Ask) -> None:
    place = {"file": TREND, "target": "0", "rank": "0"}
    found = pb.TrendGraphs.FromString(trends("trend_graphs", **place, step="0").data)
    assert [(one.file, one.node) for one in found.graphs] == [(EXAMPLE, "")]
    found = pb.TrendGraphs.FromString(trends("trend_graphs", **place, step="8").data)
    assert not found.graphs


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"targets": "0-"}, 400, "bad_parameter"),
        ({"targets": "5-3"}, 400, "bad_parameter"),
        ({"targets": "0-4000000000"}, 400, "bad_parameter"),
        ({"targets": "2"}, 404, "unknown_target"),
        ({"statistic": "median"}, 400, "bad_parameter"),
        ({"difference": "no"}, 400, "bad_parameter"),
        ({"first": "-1"}, 400, "bad_parameter"),
        ({"file": "runs/none.trend.db"}, 404, "unknown_file"),
        ({"other": EXAMPLE}, 404, "unknown_file"),
        ({"file": EXAMPLE}, 404, "unknown_file"),
        ({"targets": "0-1", "ranks": "0-99999"}, 200, ""),
    ],
)
def test_what_is_refused(trends: Ask, given: dict[str, str], status: int, code: str) -> None:
    answer = trends("trend_values", **{"file": TREND, **WINDOW, **given, "format": "json"})
    assert answer.status_code == status
    if code:
        assert answer.get_json()["code"] == code


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE value",
        "UPDATE target SET target_id = 7 WHERE target_id = 1",
        "UPDATE step SET step = -3 WHERE step = 2",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 1",
    ],
)
def test_a_damaged_file_is_said_to_be_one(trends: Ask, logdir: Path, damage: str) -> None:
    with closing(sqlite3.connect(logdir / TREND)) as connection, connection:
        connection.execute(damage)
    answer = trends("trend", file=TREND, format="json")
    assert (answer.status_code, answer.get_json()["code"]) == (422, "unreadable_trend")
    assert [one.name for one in pb.Trends.FromString(trends("trends").data).files] == [TREND]


def test_odd_values_are_said_to_be_damage(trends: Ask, logdir: Path) -> None:
    with closing(sqlite3.connect(logdir / TREND)) as connection, connection:
        connection.execute("UPDATE value SET norm = 'five' WHERE step = 3")
    answer = trends("trend_values", file=TREND, **WINDOW, format="json")
    assert (answer.status_code, answer.get_json()["code"]) == (422, "unreadable_trend")
