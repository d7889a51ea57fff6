"""Answers about a database built from real dumps, against the database's own readable views."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from math import isnan
from pathlib import Path

import pytest

from msprobe_builder.base.codes import METRICS
from msprobe_builder.database.read.names import stored_name
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import Ask, client_of
from tests.plugin.conftest import catalog as ask_catalog
from tests.plugin.conftest import node as ask_node
from tests.plugin.conftest import skeleton as ask_skeleton

STATISTICS = ("max", "min", "mean", "norm")
SHOWN_SECTIONS = {"input": 0, "output": 1, "parameters": 2, "parameters_grad": 3}


@pytest.fixture(scope="module")
def real_ask(demo_database: Path) -> Ask:
    """The plugin over the demo's database."""
    return client_of(demo_database.parent)


@pytest.fixture(scope="module")
def database(demo_database: Path) -> Iterator[sqlite3.Connection]:
    """The demo's database itself."""
    with closing(sqlite3.connect(demo_database)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def names_of(skeleton: pb.Skeleton) -> list[str]:
    columns = zip(skeleton.kind, skeleton.stem, skeleton.direction, skeleton.call, strict=True)
    return [stored_name(kind, skeleton.stems[stem], way, call) for kind, stem, way, call in columns]


def parents_of(skeleton: pb.Skeleton) -> list[int | None]:
    open_nodes: list[int] = []
    parents: list[int | None] = []
    for index in range(skeleton.node_count):
        while open_nodes and index >= open_nodes[-1] + skeleton.subtree_size[open_nodes[-1]]:
            open_nodes.pop()
        parents.append(open_nodes[-1] if open_nodes else None)
        open_nodes.append(index)
    return parents


@pytest.mark.parametrize("side", ["npu", "bench"])
def test_the_skeleton_agrees_with_node_view(
    real_ask: Ask, demo_database: Path, database: sqlite3.Connection, side: str
) -> None:
    own = ask_skeleton(real_ask, file=demo_database.name, side=side)
    other = ask_skeleton(
        real_ask, file=demo_database.name, side={"npu": "bench", "bench": "npu"}[side]
    )
    names, other_names = names_of(own), names_of(other)
    expected = database.execute(
        "SELECT * FROM node_view WHERE side = ? AND step = 0 AND rank = 0 ORDER BY seq", (side,)
    ).fetchall()
    assert names == [row["name"] for row in expected]
    parents = [None if parent is None else names[parent] for parent in parents_of(own)]
    assert parents == [row["parent"] for row in expected]
    words = [name.removeprefix("GRADE_").lower() for name in map(pb.Grade.Name, own.grade)]
    assert words == [row["grade"] for row in expected]
    assert list(own.micro_step) == [row["micro_step"] for row in expected]
    offsets = iter(own.partner_offset)
    partners = [
        None if grade == pb.GRADE_UNMATCHED else other_names[index + next(offsets)]
        for index, grade in enumerate(own.grade)
    ]
    assert list(offsets) == []
    assert partners == [row["matched"] for row in expected]
    errors = [-1.0 if row["error"] is None else row["error"] for row in expected]
    assert list(own.error) == pytest.approx(errors, rel=1e-6)


def test_the_catalog_agrees_with_node_view(real_ask: Ask, database: sqlite3.Connection) -> None:
    [file] = ask_catalog(real_ask).files
    [pair] = file.graphs
    grades = [band.name for band in file.bands]
    counted = dict(zip(grades, pair.grade_counts, strict=True))
    expected = database.execute(
        "SELECT grade, count(*) FROM node_view WHERE side = 'npu' GROUP BY grade"
    )
    assert {grade: count for grade, count in counted.items() if count} == dict(map(tuple, expected))
    assert file.is_comparison
    assert file.task == "statistics"
    assert not file.overflow_checked


def read(parameter: pb.Parameter | pb.Comparison, field: str) -> float | str | None:
    """A number as tensor_view shows it."""
    if not parameter.HasField(field):
        return None
    value = float(getattr(parameter, field))
    return "NaN" if isnan(value) else value


def test_every_node_agrees_with_tensor_view(
    real_ask: Ask, demo_database: Path, database: sqlite3.Connection
) -> None:
    expected: dict[tuple[str, str], list[sqlite3.Row]] = {}
    for row in database.execute("SELECT * FROM tensor_view ORDER BY node_id, ordinal"):
        expected.setdefault((row["side"], row["node"]), []).append(row)
    [pair] = ask_catalog(real_ask).files[0].graphs
    seen = 0
    for index in range(pair.npu_nodes):
        detail = ask_node(real_ask, file=demo_database.name, index=index)
        shown = [row for row in detail.rows if row.HasField("npu")]
        by_name = {(int(row.npu.section), row.npu.name): row for row in shown}
        for tensor in expected.get(("npu", detail.npu.name), []):
            row = by_name[SHOWN_SECTIONS[tensor["direction"]], tensor["name"]]
            assert (row.npu.dtype, row.npu.shape) == (tensor["dtype"], tensor["shape"] or "")
            for field in STATISTICS:
                assert read(row.npu, field) == tensor[field], (detail.npu.name, tensor["name"])
            for field in METRICS:
                assert read(row.comparison, field) == tensor[field]
            assert (row.bench.name or None) == (tensor["matched"] or row.bench.name or None)
            seen += 1
    assert seen == sum(len(rows) for (side, _), rows in expected.items() if side == "npu")
