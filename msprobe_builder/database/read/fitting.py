"""Nodes whose name fits a regular expression, each kind of name looked at once.

The names of a million calls are a few hundred stems with many numbers, and an expression can seldom
tell one number from another.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import text
from msprobe_builder.database.read.graphs import Graph, find_graph
from msprobe_builder.database.read.node_columns import read_packed

SEPARATOR = "\x1f"  # of names; no name holds it
# Places of those names, joined by SEPARATOR, in which an expression is found.
FindNames = Callable[[str, str], list[int]]
Ints = NDArray[np.integer[Any]]

# The grammar of names, by direction and, of calls of an API, two more; see ``NAME_SQL``.
_FORMS = ("{0}", "{0}.forward.{1}", "{0}.backward.{1}", "{0}.{1}.forward", "{0}.{1}.backward")
_WIDTH = 8  # a stem and a form make one number
_KEY_SQL = f"stem_id * {_WIDTH} + iif(direction = 0, 0, direction + 2 * (kind = 1))"
_COLUMNS = ("stem_id", "kind", "direction", "call")
_SPARSE = 4  # a table of what occurs may be so many times longer than the list of it

# What can compare digits with each other, or write one in another way: \1, (?P=name), \x31, \N{…}.
_OBSCURE = re.compile(r"\\[0-9xuUN]|\(\?P=")
_ANY_DIGIT = re.compile(r"(?<!\\)\[0-9\]")


@dataclass(frozen=True)
class NamedNodes:
    """Nodes and what their names are made of; one element per node."""

    ids: Ints
    key: Ints  # number of the stem's text × 8 + place among the forms
    call: Ints


def packed_nodes(
    connection: sqlite3.Connection, graphs: list[Graph], changes: int
) -> NamedNodes | None:
    """All nodes of these graphs as the file keeps them packed; None unless it keeps them all."""
    found = []
    for place in graphs:
        graph = find_graph(connection, place.step, place.rank, place.side)
        if graph is None:
            return None
        columns = read_packed(connection, graph, changes, _COLUMNS)
        if columns is None:
            return None
        direction = columns["direction"].astype(np.int64)
        form = direction + 2 * (columns["kind"] == Kind.API)
        form[direction == Direction.NONE] = 0
        key = columns["stem_id"].astype(np.int64) * _WIDTH + form
        found.append((np.arange(graph.first, graph.last + 1), key, columns["call"]))
    if not found:
        return None
    return NamedNodes(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def stored_nodes(
    connection: sqlite3.Connection, query: str, bound: dict[str, object]
) -> NamedNodes:
    """The nodes that ``query`` finds in the tables, from its FROM on.

    SQLite writes one text of them all: row by row this would take twice as long.
    """
    [written] = connection.execute(
        "SELECT group_concat(printf('%d %d %d', node_id, key, called), ' ') FROM"
        f" (SELECT node_id, {_KEY_SQL} AS key, ifnull(call, 0) AS called {query})",
        bound,
    ).fetchone()
    table = np.fromstring(written or "", np.int64, sep=" ").reshape(-1, 3)
    return NamedNodes(*table.T)


def fitting(
    connection: sqlite3.Connection, nodes: NamedNodes, pattern: str, find: FindNames
) -> Ints:
    """Places of the nodes whose name ``find`` finds the expression in, ascending."""
    if not len(nodes.ids):
        return np.empty(0, np.int64)
    calls, call_of = _distinct(nodes.call)
    alike = digits_alike(pattern)
    written = [str(call).translate(alike) for call in calls.tolist()]
    spellings = list(dict.fromkeys(written))
    number = {spelling: place for place, spelling in enumerate(spellings)}
    spelling_of = np.array([number[spelling] for spelling in written])[call_of]
    spelling_of[nodes.key % _WIDTH == 0] = 0
    keys, key_of = _distinct(nodes.key)
    names, name_of = _distinct(key_of * len(spellings) + spelling_of)
    parts, numbers = np.divmod(names, len(spellings))
    stems = _stems(connection, keys // _WIDTH)
    forms = (keys % _WIDTH).tolist()
    if max(forms) >= len(_FORMS):
        raise DamagedError("a node has a direction that none has")
    spell = [_FORMS[form].format for form in forms]
    joined = SEPARATOR.join(
        spell[part](stems[part], spellings[number])
        for part, number in zip(parts.tolist(), numbers.tolist(), strict=True)
    )
    if joined.count(SEPARATOR) != len(names) - 1:
        raise DamagedError("a name holds a control character")
    is_found = np.zeros(len(names), np.bool_)
    is_found[find(pattern, joined)] = True
    return np.flatnonzero(is_found[name_of])


def digits_alike(pattern: str) -> dict[int, str]:
    """For ``str.translate``: each digit, and one that the expression cannot tell from it.

    A digit that the expression does not write is told from its neighbours by nothing: where a
    range of characters begins or ends between digits, one of them is written there. So an
    expression is found in a name or not whichever of such digits stands where.
    """
    if _OBSCURE.search(pattern):
        return {}
    written = set(_ANY_DIGIT.sub(r"\\d", pattern))
    alike: dict[int, str] = {}
    first = ""  # of the digits without a written one between them
    for digit in "0123456789":
        first = "" if digit in written else first or digit
        alike[ord(digit)] = first or digit
    return alike


def _distinct(values: Ints) -> tuple[Ints, NDArray[np.int64]]:
    """Distinct values, ascending, and the place of each value among them."""
    low, high = int(values.min()), int(values.max())
    if high - low >= _SPARSE * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    shifted = np.subtract(values, low, dtype=np.int64)
    occurs = np.zeros(high - low + 1, np.bool_)
    occurs[shifted] = True
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[shifted]


def _stems(connection: sqlite3.Connection, numbers: Ints) -> list[str]:
    """The text of each number."""
    rows = connection.execute(
        "SELECT text_id, value FROM text WHERE text_id IN (SELECT value FROM json_each(?))",
        (json.dumps(np.unique(numbers).tolist()),),
    )
    found = {number: text(value) for number, value in rows}
    try:
        return [found[number] for number in numbers.tolist()]
    except KeyError as error:
        raise DamagedError(f"text {error} is missing") from None
