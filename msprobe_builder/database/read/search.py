"""Finding nodes in all steps and ranks of a file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer, number, optional_integer, text
from msprobe_builder.database.read.names import NAME_SQL, read_names

MAX_PAGE = 10_000
SEPARATOR = "\x1f"  # of names; no name holds it
# Places of those names, joined by SEPARATOR, in which an expression is found.
FindNames = Callable[[str, str], list[int]]

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
    input_dtype: str = ""
    output_dtype: str = ""
    shape: str = ""
    below: str = ""  # path of a module: itself and everything below it
    direction: int | None = None
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
    module: str  # name stem of the module around it, empty for the root


def search(
    connection: sqlite3.Connection, wanted: Search, find: FindNames
) -> tuple[list[Hit], int]:
    """One page of hits, and how many there are on all pages; ``find`` knows the expressions."""
    tests, bound = _tests(wanted)
    # With the graphs in order the nodes come in order too: nothing is left to sort.
    tables = (
        "graph CROSS JOIN node ON node_id BETWEEN first_node AND first_node + node_count - 1"
        " JOIN text ON text_id = stem_id"
    )
    if wanted.reasons:
        tables += " JOIN unmatched USING (node_id) JOIN unmatched_reason USING (reason)"
    query = f"FROM {tables} WHERE {' AND '.join(tests) or '1'} ORDER BY "
    if wanted.name and wanted.regex:
        nodes = _match(connection, wanted, find, query + ORDERS[EXECUTION], bound)
    else:
        rows = connection.execute(f"SELECT node_id {query} {ORDERS[wanted.order]}", bound)
        nodes = [node for (node,) in rows]
    page = nodes[wanted.offset : wanted.offset + wanted.limit]
    return _read_hits(connection, page), len(nodes)


def _match(
    connection: sqlite3.Connection,
    wanted: Search,
    find: FindNames,
    query: str,
    bound: dict[str, object],
) -> list[int]:
    """Nodes that the rest of the search has found and whose name matches the expression."""
    # One text for all names and one for all ids; row by row this would take twice as long.
    names, ids = connection.execute(
        f"SELECT group_concat(name, :separator), group_concat(node_id, ' ')"
        f" FROM (SELECT {NAME_SQL} AS name, node_id {query})",
        {**bound, "separator": SEPARATOR},
    ).fetchone()
    if names is None:
        return []
    nodes = np.fromstring(ids, np.int64, sep=" ")
    if names.count(SEPARATOR) != len(nodes) - 1:
        raise DamagedError("a name holds a control character")
    found: list[int] = nodes[find(wanted.name, names)].tolist()
    if wanted.order == EXECUTION:
        return found
    rows = connection.execute(
        "SELECT node_id FROM json_each(?) AS found JOIN node ON node_id = found.value"
        f" JOIN graph USING (graph_id) ORDER BY {ORDERS[wanted.order]}",
        (json.dumps(found),),
    )
    return [node for (node,) in rows]


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
    of_tensors = (
        ("dtype", "dtype", wanted.dtype, ""),
        ("input_dtype", "dtype", wanted.input_dtype, " section IN (0, 2) AND"),
        ("output_dtype", "dtype", wanted.output_dtype, " section IN (1, 3) AND"),
        ("shape", "shape", wanted.shape, ""),
    )
    for name, column, value, section in of_tensors:
        if value:
            tests.append(
                f"node.node_id IN (SELECT tensor.node_id FROM tensor WHERE{section} {column}_id IN"
                f" (SELECT text_id FROM text WHERE replace(value, ' ', '') IN"
                f" (:{name}, 'torch.' || :{name}, '[' || :{name} || ']')))"
            )
            bound[name] = value.replace(" ", "")
    if wanted.below:
        tests.append(_BELOW)
        bound["below"] = _lower(wanted.below).removeprefix("module.")
    if wanted.direction is not None:
        tests.append("node.direction = :direction")
        bound["direction"] = wanted.direction
    if wanted.name and not wanted.regex:
        tests.append(f"instr(lower({NAME_SQL}), :name)")
        bound["name"] = _lower(wanted.name)
    return tests, bound


# The name of a module ends in its class, which a path may leave out.
_BELOW = """node.node_id IN (
    SELECT inner.node_id FROM text AS name JOIN node AS module ON module.stem_id = name.text_id
    JOIN node AS inner ON inner.node_id BETWEEN module.node_id AND module.subtree_end
    WHERE module.kind = 0 AND lower(name.value) IN (:below, 'module.' || :below)
    OR module.kind = 0
        AND lower(substr(name.value, 1, length(:below) + 8)) = 'module.' || :below || '.'
        AND instr(substr(name.value, length(:below) + 9), '.') = 0)"""


def _lower(value: str) -> str:
    """Lower case as SQLite makes it: of ASCII letters alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in value)


def _read_hits(connection: sqlite3.Connection, nodes: list[int]) -> list[Hit]:
    names = read_names(connection, nodes)
    rows = connection.execute(
        "SELECT node.node_id, step, rank, side, node.node_id - first_node, grade, error, overflow,"
        " unmatched_reason.name, (SELECT value FROM node AS above"
        " LEFT JOIN node AS outer ON outer.node_id = above.parent_id"
        " JOIN text ON text_id = iif(above.kind = 0, above.stem_id, outer.stem_id)"
        " WHERE above.node_id = node.parent_id)"
        " FROM json_each(?) AS wanted JOIN node ON node.node_id = wanted.value"
        " JOIN graph USING (graph_id) LEFT JOIN unmatched ON unmatched.node_id = node.node_id"
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
            module=text(module),
        )
        for node, step, rank, side, index, grade, error, overflow, reason, module in rows
    ]
