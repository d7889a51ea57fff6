"""Errors measured by the size of the tensors, against a computation of their own."""

from __future__ import annotations

import re
import sqlite3
from math import inf, isfinite, isnan, nan, prod, sqrt
from pathlib import Path

import pytest

from msprobe_builder.database.read import measures
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import Ask, client_of

UNIT = {"torch.float32": 2**-23, "torch.bfloat16": 2**-7, "torch.float16": 2**-10}
STATISTICS = ("max", "min", "mean", "norm")


def number(value: object) -> float | None:
    """A cell of a view for people: numbers, NaN as a word, nothing."""
    return nan if value == "NaN" else None if value is None else float(str(value))


def expected(npu: sqlite3.Row, bench: sqlite3.Row) -> tuple[float, float]:
    """Scaled error of one pair of tensors, and the same in roundings."""
    sizes = [number(bench["max"]), number(bench["min"])]
    assert None not in sizes
    high, low = (abs(size or 0.0) for size in sizes)
    large, small = max(high, low), min(high, low)
    extreme = small if large > 1000 * small and large >= 1000 else large
    norm = number(bench["norm"])
    count = prod(int(part) for part in re.findall(r"\d+", bench["shape"]))
    unit = {
        "max": max(high, extreme),
        "min": max(low, extreme),
        "mean": None if norm is None else norm / sqrt(count),
        "norm": norm,
    }
    worst = 0.0
    for name in STATISTICS:
        one, other, size = number(npu[name]), number(bench[name]), unit[name]
        if one is None or other is None or size is None or one == other:
            continue
        if isnan(one) and isnan(other):
            continue
        broken = isnan(one - other) or not isfinite(one - other)
        worst = max(worst, 1000.0 if broken or size == 0 else abs(one - other) / size)
    units = [UNIT.get(side["dtype"], 2**-23) for side in (npu, bench)]
    rounding = max(*units, 8 * min(*units, 2**-23))
    return min(worst, 1000.0), min(worst, 1000.0) / rounding


@pytest.mark.parametrize("at_once", [3, 20_000])
@pytest.mark.parametrize("name", ["demo_database", "nan_database"])
def test_every_node_has_the_worst_of_its_outputs(
    name: str, at_once: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "_NODES", at_once)
    database: Path = request.getfixturevalue(name)
    ask = client_of(database.parent)
    where = {"file": database.name, "step": 0, "rank": 0}
    found = pb.Measures.FromString(ask("measures", **where).data)
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        nodes = connection.execute(
            "SELECT seq, name, kind, matched FROM node_view WHERE side = 'npu' ORDER BY seq"
        ).fetchall()
        tensors = connection.execute(
            "SELECT * FROM tensor_view WHERE direction IN ('output', 'parameters_grad')"
        ).fetchall()
    assert len(found.scaled) == len(found.roundings) == len(nodes)
    bench = {(row["node"], row["name"]): row for row in tensors if row["side"] == "bench"}
    outputs: dict[str, list[tuple[float, float]]] = {}
    for row in tensors:
        if row["side"] == "npu" and (row["node"], row["name"]) in bench and row["max"] is not None:
            pair = expected(row, bench[row["node"], row["name"]])
            outputs.setdefault(row["node"], []).append(pair)
    checked = 0
    for node in nodes:
        if node["kind"] == "collection" or node["matched"] != node["name"]:
            continue
        pairs = outputs.get(node["name"])
        scaled, roundings = found.scaled[node["seq"]], found.roundings[node["seq"]]
        if not pairs:
            assert (scaled, roundings) == (-1, -1), node["name"]
            continue
        checked += 1
        assert scaled == pytest.approx(max(one for one, _ in pairs), rel=1e-5), node["name"]
        assert roundings == pytest.approx(max(two for _, two in pairs), rel=1e-5), node["name"]
    assert checked > 400


@pytest.mark.parametrize("draw", [7, 101, 7919])
def test_a_collection_has_the_worst_of_what_it_holds(
    demo_database: Path, tmp_path: Path, draw: int
) -> None:
    """Whatever stands before and behind it."""
    path = tmp_path / "drawn.vis.db"
    path.write_bytes(demo_database.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE comparison SET max_diff = (npu_node * ? % 1009) / 1e9", (draw,))
        connection.execute(  # what stands outside of it is far worse
            "UPDATE comparison SET max_diff = 1.0 WHERE npu_node NOT IN (SELECT node.node_id FROM"
            " node JOIN node AS above ON above.node_id = node.parent_id WHERE above.kind = 2)"
        )
    ask = client_of(tmp_path)
    where = {"file": path.name, "step": 0, "rank": 0}
    found = pb.Measures.FromString(ask("measures", **where).data)
    skeleton = pb.Skeleton.FromString(ask("skeleton", side="npu", **where).data)
    collections = [index for index, kind in enumerate(skeleton.kind) if kind == pb.KIND_COLLECTION]
    assert collections
    for index in collections:
        inside = slice(index + 1, index + skeleton.subtree_size[index])
        for column in (found.scaled, found.roundings):
            assert column[index] == max(column[inside])


def test_the_wrong_scale_of_the_demo_stays_and_near_zeros_go(demo_database: Path) -> None:
    """15 of the 17 serious and severe nodes differ by less than 5 % of their tensors."""
    ask = client_of(demo_database.parent)
    where = {"file": demo_database.name, "step": 0, "rank": 0}
    found = pb.Measures.FromString(ask("measures", **where).data)
    skeleton = pb.Skeleton.FromString(ask("skeleton", side="npu", **where).data)
    loud = [
        scaled
        for scaled, grade in zip(found.scaled, skeleton.grade, strict=True)
        if grade in (pb.GRADE_SERIOUS, pb.GRADE_SEVERE)
    ]
    assert loud
    assert sum(scaled < 0.05 for scaled in loud) > len(loud) / 2
    stems = [skeleton.stems[place] for place in skeleton.stem]
    [wrong] = [
        index
        for index, stem in enumerate(stems)
        if stem == "Tensor.__mul__"
        and skeleton.call[index] == 19
        and skeleton.direction[index] == 1
    ]
    assert found.scaled[wrong] == pytest.approx(0.5, rel=1e-3)
    assert found.roundings[wrong] > 1e5


def test_a_side_alone_has_no_measures(ask: Ask, logdir: Path) -> None:
    [name] = [path.relative_to(logdir).as_posix() for path in logdir.rglob("*.vis.db")]
    found = pb.Measures.FromString(ask("measures", file=name, step=1, rank=2).data)
    assert (list(found.scaled), list(found.roundings)) == ([], [])


def test_infinite_errors_are_the_worst(ask: Ask, logdir: Path) -> None:
    [path] = list(logdir.rglob("*.vis.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tensor SET section = 1")
        connection.execute("UPDATE comparison SET max_diff = ?", (inf,))
    name = path.relative_to(logdir).as_posix()
    found = pb.Measures.FromString(ask("measures", file=name, step=0, rank=0).data)
    assert max(found.scaled) == 1000


@pytest.mark.parametrize(
    ("extremes", "errors", "scaled"),
    [
        ((4.0, -2.0), (1.0, 1.0), 0.25),  # both by the largest element
        ((2.0, -4.0), (1.0, 0.0), 0.25),
        ((2.0, -3.4e38), (1.0, 0.0), 0.5),  # beside a mask
        ((3.4e38, -2.0), (0.0, 1.0), 0.5),
        ((2.0, -3.4e38), (0.0, 1.7e38), 0.5),  # the mask itself
        ((1e-4, -0.5), (0.1, 0.0), 0.2),  # small, and no mask
        ((0.5, -1e-4), (0.0, 0.1), 0.2),
        ((1e4, -10.0), (0.0, 5.0), 5e-4),  # a thousand times as much is no mask yet
    ],
)
def test_errors_are_measured_against_the_largest_element_that_is_no_mask(
    ask: Ask,
    logdir: Path,
    extremes: tuple[float, float],
    errors: tuple[float, float],
    scaled: float,
) -> None:
    [path] = list(logdir.rglob("*.vis.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tensor SET max = ?, min = ? WHERE node_id = 104", extremes)
        connection.execute(
            "UPDATE comparison SET max_diff = ?, min_diff = ?, nan_flags = 0", errors
        )
        connection.execute("UPDATE comparison SET norm_diff = NULL, mean_diff = NULL")
    name = path.relative_to(logdir).as_posix()
    found = pb.Measures.FromString(ask("measures", file=name, step=0, rank=0).data)
    assert list(found.scaled) == pytest.approx([-1, -1, -1, scaled, -1, -1, -1], rel=1e-5)


def test_a_collection_has_the_error_of_its_last_call_and_a_graph_only_its_own(
    ask: Ask, logdir: Path
) -> None:
    [path] = list(logdir.rglob("*.vis.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM comparison")
        for node, partner, error in ((17, 106, 0.5), (202, 204, 0.25)):
            for one in (node, partner):
                connection.execute(
                    "INSERT INTO tensor SELECT ?, 0, 1, name_id, type_id, dtype_id, shape_id,"
                    " NULL, 2, -1, 0, 1, 0, NULL, NULL, NULL FROM tensor WHERE node_id = 104"
                    " AND ordinal = 2",
                    (one,),
                )
            connection.execute(
                "INSERT INTO comparison (npu_node, npu_ordinal, bench_ordinal, max_diff)"
                " VALUES (?, 0, 0, ?)",
                (node, 2 * error),
            )
    name = path.relative_to(logdir).as_posix()
    for step, scaled in ((0, [-1, -1, -1, -1, -1, 0.5, 0.5]), (1, [-1, 0.25])):
        found = pb.Measures.FromString(ask("measures", file=name, step=step, rank=0).data)
        assert list(found.scaled) == scaled


def test_they_may_take_longer_than_other_answers(
    demo_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = client_of(demo_database.parent)
    where = {"file": demo_database.name, "step": 0, "rank": 0}
    whole = ask("measures", **where).data
    monkeypatch.setattr("msprobe_builder.database.connection._STEPS_PER_LOOK", 5_000)
    monkeypatch.setattr("tb_graph_ascend.files.database.QUERY_SECONDS", 0.0)
    assert ask("measures", **where).data == whole
    monkeypatch.setattr("tb_graph_ascend.http.questions.measures.MEASURES_SECONDS", 0.0)
    refused = ask("measures", **where)
    assert (refused.status_code, pb.Problem.FromString(refused.data).code) == (503, "too_slow")
