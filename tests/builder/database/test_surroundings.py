"""Which module is to be recorded next around a node, against the tree of a real file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.read.surroundings import read_surroundings
from tests.conftest import BuildDatabase

_NODES = """
SELECT node_id, parent_id, node.kind, direction, value, call, step, rank, level, graph_id,
    coalesce(one.bench_node, two.npu_node)
FROM node JOIN graph USING (graph_id) JOIN text ON text_id = stem_id
LEFT JOIN match AS one ON one.npu_node = node_id LEFT JOIN match AS two ON two.bench_node = node_id
"""


@pytest.fixture
def connection(pairs: Path, build_database: BuildDatabase, tmp_path: Path) -> sqlite3.Connection:
    sides = (min((pairs / "adapter" / side / "step0").glob("rank*")) for side in ("npu", "bench"))
    path = tmp_path / "own.vis.db"
    path.write_bytes(build_database(*sides).read_bytes())
    return sqlite3.connect(path)


def nodes_of(connection: sqlite3.Connection) -> dict[int, tuple[object, ...]]:
    return {row[0]: row for row in connection.execute(_NODES)}


def around(nodes: dict[int, tuple[object, ...]], node: int) -> int | None:
    """The module, by its node: that of both runs, else the innermost."""
    above: object = node
    modules = []
    while above is not None:
        row = nodes[int(str(above))]
        if row[2] == Kind.MODULE and row[3] != Direction.NONE:
            modules.append(row)
        above = row[1]
    both = [int(str(row[0])) for row in modules if row[-1] is not None]
    return both[0] if both else int(str(modules[0][0])) if modules else None


def made_outside(nodes: dict[int, tuple[object, ...]], node: int) -> tuple[str, ...]:
    """The names of a call that both runs number, outside of all modules."""
    row = nodes[node]
    if row[2] != Kind.API or row[-1] is None:
        return ()
    other = nodes[int(str(row[-1]))]
    return () if None in (row[5], other[5]) else (f"{row[4]}.{row[5]}", f"{other[4]}.{other[5]}")


@pytest.mark.parametrize("every", [1, 2, 5])
def test_it_is_the_innermost_that_both_runs_call(
    connection: sqlite3.Connection, every: int
) -> None:
    """Of some modules, or of all, one run alone calls them."""
    connection.execute(
        "DELETE FROM match WHERE npu_node IN (SELECT node_id FROM node WHERE kind = 0)"
        " AND npu_node % ? = 0",
        (every,),
    )
    # Of every third call one side has no number, of every fifth the other.
    connection.execute("UPDATE node SET call = NULL WHERE kind = 1 AND node_id % 3 = 0")
    connection.execute("UPDATE node SET call = NULL WHERE kind = 1 AND node_id % 5 = 0")
    nodes = nodes_of(connection)
    kinds = set()
    for node, row in [*nodes.items()][::3]:
        found = read_surroundings(connection, node, {})
        assert found is not None
        assert (found.step, found.level) == (row[6], row[8])
        assert found.ranks == (row[7],)
        module = around(nodes, node)
        if module is None:
            assert found.names == made_outside(nodes, node)
            kinds.add(("outside", len(found.names)))
            continue
        partner = nodes[module][-1]
        names = [nodes[module][4], *([] if partner is None else [nodes[int(str(partner))][4]])]
        assert found.names == tuple(names)
        kinds.add(("module", len(names)))
    assert kinds >= {("outside", 0), ("outside", 2)}
    assert (("module", 2) in kinds) == (every > 1)
    assert ("module", 1) in kinds or every > 1
    whole = read_surroundings(connection, node, {}, is_outside=True)
    assert whole is not None
    assert whole.names == ()
    assert whole.calls == sum(one[9] == row[9] for one in nodes.values())
    assert read_surroundings(connection, max(nodes) + 1, {}) is None


def test_all_calls_of_the_module_count_with_what_is_inside(connection: sqlite3.Connection) -> None:
    nodes = nodes_of(connection)
    ends = dict(connection.execute("SELECT node_id, subtree_end FROM node"))
    tensors = dict(connection.execute("SELECT node_id, count(*) FROM tensor GROUP BY node_id"))
    for node in [*nodes][::7]:
        module = around(nodes, node)
        if module is None:
            continue
        found = read_surroundings(connection, node, {})
        assert found is not None
        alike = [
            one
            for one, row in nodes.items()
            if row[2] == Kind.MODULE and (row[4], row[9]) == (nodes[module][4], nodes[module][9])
        ]
        inside = [one for first in alike for one in range(first, ends[first] + 1)]
        assert found.calls == len(inside)
        assert sum(kind.count for kind in found.tensors) == sum(
            tensors.get(one, 0) for one in inside
        )
