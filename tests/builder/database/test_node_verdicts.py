"""What is told of each node's part, against the rows of a real file looked up one by one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from msprobe_builder.base.codes import CallRole
from msprobe_builder.database.open import opened
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.roles import MAX_LINKS, read_node_verdict
from tests.conftest import BuildDatabase
from tests.small_graphs import Seeded, random_pair, written


def test_each_node_plays_the_part_of_its_row(pairs: Path, build_database: BuildDatabase) -> None:
    sides = (min((pairs / "gpt2" / side / "step0").glob("rank*")) for side in ("npu", "bench"))
    with opened(build_database(*sides)) as connection:
        rows = connection.execute(
            "SELECT node_id, first_node, role.role, given, shown, expected, suspect_id,"
            " match.npu_node IS NOT NULL FROM node JOIN graph USING (graph_id)"
            " LEFT JOIN role USING (node_id) LEFT JOIN match ON npu_node = node_id WHERE side = 0"
        ).fetchall()
        assert {is_matched for _, _, role, *_, is_matched in rows if role is None} == {0, 1}
        for node, first, role, given, shown, expected, suspect, is_matched in rows:
            found = read_node_verdict(connection, first, node)
            assert found is not None
            without = CallRole.CLEAN if is_matched else CallRole.UNKNOWN
            assert found.role == (without if role is None else role)
            assert (found.given, found.shown, found.expected) == (given, shown, expected)
            assert (found.suspect is None) == (suspect is None)
            if found.suspect is not None:
                assert found.suspect.name == _name(connection, suspect)
            assert [link.name for link in found.came_from] == _neighbours(
                connection, "propagation.node_id", "giver_id", node
            )
            assert [link.name for link in found.went_to] == _neighbours(
                connection, "giver_id", "propagation.node_id", node
            )
            for link in (*found.came_from, *found.went_to):
                [[name]] = connection.execute(
                    "SELECT name FROM node_name WHERE node_id = ?", (first + link.index,)
                )
                assert link.name == name


@pytest.mark.parametrize("role", [-1, len(CallRole), 99])
def test_a_part_that_there_is_not_is_damage(role: int) -> None:
    drawn = (random_pair(Seeded(seed), 0) for seed in range(99))
    with written([next(pair for pair in drawn if pair.roles)]) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        [[node]] = connection.execute("SELECT min(node_id) FROM role")
        assert read_node_verdict(connection, 0, node) is not None
        connection.execute("UPDATE role SET role = ? WHERE node_id = ?", (role, node))
        with pytest.raises(DamagedError):
            read_node_verdict(connection, 0, node)


def _name(connection: sqlite3.Connection, suspect: int) -> str:
    [[name]] = connection.execute(
        "SELECT name FROM suspect JOIN node_name USING (node_id) WHERE suspect_id = ?", (suspect,)
    )
    return str(name)


def _neighbours(connection: sqlite3.Connection, own: str, other: str, node: int) -> list[str]:
    rows = connection.execute(
        f"SELECT name FROM propagation JOIN node_name ON node_name.node_id = {other}"
        f" WHERE {own} = ? ORDER BY {other} LIMIT ?",
        (node, MAX_LINKS),
    )
    return [str(name) for (name,) in rows]
