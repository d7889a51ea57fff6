"""What each node puts out, in one number per side, against the view for people."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import client_of


@pytest.mark.parametrize("name", ["demo_database", "nan_database"])
def test_both_sides_have_the_norm_of_each_first_output(
    name: str, request: pytest.FixtureRequest
) -> None:
    database: Path = request.getfixturevalue(name)
    place = {"file": database.name, "step": 0, "rank": 0}
    found = pb.Values.FromString(client_of(database.parent)("values", **place).data)
    with closing(sqlite3.connect(database)) as connection:
        for side, column in (("npu", found.npu), ("bench", found.bench)):
            nodes = connection.execute(
                "SELECT name FROM node_view WHERE side = ? ORDER BY seq", (side,)
            ).fetchall()
            outputs = connection.execute(
                "SELECT node, name, norm FROM tensor_view WHERE side = ? AND direction = 'output'"
                " AND norm IS NOT NULL",
                (side,),
            ).fetchall()
            first: dict[str, tuple[str, float]] = {}
            for node, output, norm in outputs:
                known = (output, float(norm))
                first[node] = min(first.get(node, known), known)
            assert len(first) > 300
            expected = [first[node][1] if node in first else -1 for (node,) in nodes]
            assert list(column) == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_both_sides_have_shape_and_type_of_each_first_output(demo_database: Path) -> None:
    place = {"file": demo_database.name, "step": 0, "rank": 0}
    found = pb.Values.FromString(client_of(demo_database.parent)("values", **place).data)
    assert len(set(found.tensors)) == len(found.tensors) > 3
    with closing(sqlite3.connect(demo_database)) as connection:
        for side, column in (("npu", found.npu_tensor), ("bench", found.bench_tensor)):
            nodes = connection.execute(
                "SELECT name FROM node_view WHERE side = ? ORDER BY seq", (side,)
            ).fetchall()
            outputs = connection.execute(
                "SELECT node, name, shape, dtype FROM tensor_view"
                " WHERE side = ? AND direction = 'output' AND shape IS NOT NULL ORDER BY name",
                (side,),
            ).fetchall()
            first = {node: f"{shape} {dtype}" for node, _, shape, dtype in reversed(outputs)}
            shown = [found.tensors[place - 1] if place else None for place in column]
            assert shown == [first.get(node) for (node,) in nodes]
