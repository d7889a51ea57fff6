"""Finding nodes in all steps and ranks of a file."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from tb_graph_ascend.cells import integer, number, optional_integer, text
from tb_graph_ascend.expressions import matching
from tb_graph_ascend.query_names import node_name, read_names

MAX_PAGE = 1000
EXECUTION, SEVERITY = "execution", "severity"
ORDERS = {
    EXECUTION: "graph.step, graph.rank, graph.side, node.node_id",
    # Unmatched nodes come after all grades: nothing is known of them.
    SEVERITY: "node.grade = 6, node.grade DESC, ifnull(node.error, -1) DESC,"
    " graph.step, graph.rank, graph.side, node.node_id",
}


@dataclass(frozen=True)
class Search:
    """What to look for; None and empty mean anything."""

    name: str = ""
    regex: bool = False
    operator: str = ""
    dtype: str = ""
    shape: str = ""
    grades: tuple[int, ...] = ()
    overflows: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    side: int | None = None
    step: int | None = None
    rank: int | None = None
    order: str = EXECUTION
    offset: int = 0
    limit: int = 200


@dataclass(frozen=True)
class Hit:
    """A node that was found."""

    step: int
    rank: int
    side: int
    index: int
    name: str
    grade: int
    error: float | None
    overflow: int
    unmatched_reason: str


def search(connection: sqlite3.Connection, wanted: Search) -> tuple[list[Hit], int]:
    """One page of hits, and how many there are on all pages."""
    tests, bound = _tests(wanted)
    tables = "node JOIN graph USING (graph_id) JOIN text ON text_id = stem_id"
    if wanted.reasons:
        tables += " JOIN unmatched USING (node_id) JOIN unmatched_reason USING (reason)"
    query = f"FROM {tables} WHERE {' AND '.join(tests) or '1'} ORDER BY {ORDERS[wanted.order]}"
    if wanted.name and wanted.regex:
        columns = "node_id, kind, text.value, direction, ifnull(call, 0)"
        rows = connection.execute(f"SELECT {columns} {query}", bound).fetchall()
        names = [node_name(kind, text(stem), way, call) for _, kind, stem, way, call in rows]
        found = matching(wanted.name, names)
        nodes = [row[0] for row, name in zip(rows, names, strict=True) if name in found]
    else:
        nodes = [node for (node,) in connection.execute(f"SELECT node_id {query}", bound)]
    page = nodes[wanted.offset : wanted.offset + wanted.limit]
    return _read_hits(connection, page), len(nodes)


def _tests(wanted: Search) -> tuple[list[str], dict[str, object]]:
    """Conditions in SQL, and the values that they are bound to."""
    tests: list[str] = []
    bound: dict[str, object] = {}
    for column, place in (("side", wanted.side), ("step", wanted.step), ("rank", wanted.rank)):
        if place is not None:
            tests.append(f"graph.{column} = :{column}")
            bound[column] = place
    if wanted.grades:
        tests.append("node.grade IN (SELECT value FROM json_each(:grades))")
        bound["grades"] = json.dumps(wanted.grades)
    if wanted.overflows:
        tests.append(
            "node.overflow IS NOT NULL AND node.overflow IN (SELECT value FROM json_each(:levels))"
        )
        bound["levels"] = json.dumps(wanted.overflows)
    if wanted.reasons:
        tests.append("unmatched_reason.name IN (SELECT value FROM json_each(:reasons))")
        bound["reasons"] = json.dumps(wanted.reasons)
    if wanted.operator:
        tests.append(
            "stem_id IN (SELECT text_id FROM text WHERE lower(value) = :operator"
            " OR lower(substr(value, -length(:operator) - 1)) = '.' || :operator)"
        )
        bound["operator"] = _lower(wanted.operator)
    for column, value in (("dtype", wanted.dtype), ("shape", wanted.shape)):
        if value:
            tests.append(
                f"node.node_id IN (SELECT tensor.node_id FROM tensor WHERE {column}_id IN"
                f" (SELECT text_id FROM text WHERE replace(value, ' ', '') IN"
                f" (:{column}, 'torch.' || :{column}, '[' || :{column} || ']')))"
            )
            bound[column] = value.replace(" ", "")
    if wanted.name and not wanted.regex:
        tests.append(f"instr(lower({_FULL_NAME}), :name)")
        bound["name"] = _lower(wanted.name)
    return tests, bound


_FULL_NAME = (
    "CASE WHEN direction = 0 THEN text.value"
    " WHEN kind = 1 THEN text.value || '.' || call || iif(direction = 1, '.forward', '.backward')"
    " ELSE text.value || iif(direction = 1, '.forward.', '.backward.') || call END"
)


def _lower(value: str) -> str:
    """Lower case as SQLite makes it: of ASCII letters alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in value)


def _read_hits(connection: sqlite3.Connection, nodes: list[int]) -> list[Hit]:
    names = read_names(connection, nodes)
    rows = connection.execute(
        "SELECT node_id, step, rank, side, node_id - first_node, grade, error, overflow,"
        " unmatched_reason.name FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value"
        " JOIN graph USING (graph_id) LEFT JOIN unmatched USING (node_id)"
        " LEFT JOIN unmatched_reason USING (reason) ORDER BY wanted.key",
        (json.dumps(nodes),),
    )
    return [
        Hit(
            step=integer(step),
            rank=integer(rank),
            side=integer(side, 0, 1),
            index=integer(index),
            name=names[node],
            grade=integer(grade, 0, 6),
            error=number(error),
            overflow=optional_integer(overflow, 1, 3) or 0,
            unmatched_reason=text(reason),
        )
        for node, step, rank, side, index, grade, error, overflow, reason in rows
    ]
