"""What lies below two nodes that somebody matched finds its partner by what the parent calls it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.rematch.below import pairs_below
from msprobe_builder.rematch.graphs import read_pairs
from tests.builder.small_dumps import Record, forward, tensor, write_dump
from tests.conftest import BuildDatabase

NPU, BENCH = "Module.a.Net.forward.0", "Module.b.Other.forward.0"
SMALL, LARGE = (4, 4), (8, 2)


def record(shape: tuple[int, ...]) -> Record:
    return forward([tensor(shape=shape)], [tensor(shape=shape)])


def model(
    directory: Path, top: str, inside: Sequence[tuple[str, tuple[int, ...]]]
) -> tuple[Path, list[str]]:
    """A module and, in this order, the modules in it; with their names."""
    stem = top.split(".")[1]
    names = [f"Module.{stem}.{name}.forward.0" for name, _ in inside]
    shapes = [shape for _, shape in inside]
    data = {top: record(SMALL)}
    data |= {name: record(shape) for name, shape in zip(names, shapes, strict=True)}
    construct = {top: None, **dict.fromkeys(names, top)}
    return write_dump(directory, data, construct), names


@pytest.mark.parametrize(
    ("npu", "bench", "pairs"),
    [
        pytest.param(
            [("mod.0.q.Linear", SMALL), ("mod.1.q.Linear", SMALL)],
            [("mod.1.q.Linear", SMALL), ("mod.0.q.Linear", SMALL)],
            [(0, 1), (1, 0)],
            id="the whole name below the parent, whatever the order",
        ),
        pytest.param(
            [("x.Linear", SMALL), ("y.Norm", SMALL)],
            [("u.Norm", SMALL), ("v.Linear", SMALL)],
            [(1, 0)],
            id="the class; in another order it says too little",
        ),
        pytest.param(
            [("x.Linear", SMALL), ("y.Norm", LARGE)],
            [("x.Dense", SMALL), ("y.Scale", LARGE)],
            [(0, 0), (1, 1)],
            id="what the parent calls it",
        ),
        pytest.param(
            [("x.Linear", SMALL), ("y.Norm", SMALL)],
            [("y.Norm", LARGE), ("x.Linear", SMALL)],
            [(0, 1)],
            id="shapes must not contradict a name in another place",
        ),
    ],
)
def test_modules_below_find_each_other(
    npu: Sequence[tuple[str, tuple[int, ...]]],
    bench: Sequence[tuple[str, tuple[int, ...]]],
    pairs: Sequence[tuple[int, int]],
    tmp_path: Path,
    build_database: BuildDatabase,
) -> None:
    directory, own = model(tmp_path / "npu", NPU, npu)
    other_directory, others = model(tmp_path / "bench", BENCH, bench)
    database = build_database(directory, other_directory, "--exact")
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        nodes = {
            (row["side"], row["name"]): row["node_id"]
            for row in connection.execute("SELECT side, name, node_id FROM node_view")
        }
        connection.row_factory = None
        sides = sorted({side for side, _ in nodes})
        npu_side = next(side for side in sides if (side, NPU) in nodes)
        bench_side = next(side for side in sides if (side, BENCH) in nodes)
        [pair] = read_pairs(connection)
        top, other_top = nodes[npu_side, NPU], nodes[bench_side, BENCH]
        found = pairs_below(connection, pair, top, other_top, replace=False)
        wanted = [(nodes[npu_side, own[i]], nodes[bench_side, others[j]]) for i, j in pairs]
    assert found == sorted(wanted)
