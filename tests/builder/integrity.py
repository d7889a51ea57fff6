"""Checks that every database must pass, whatever it was built from."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def check(path: Path) -> sqlite3.Connection:
    """Check a database's structure; returns a connection to it."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    graphs = connection.execute("SELECT graph_id, first_node, node_count FROM graph").fetchall()
    assert graphs
    for graph, first, count in graphs:
        rows = connection.execute(
            "SELECT node_id, parent_id, subtree_end FROM node WHERE graph_id = ? ORDER BY node_id",
            (graph,),
        ).fetchall()
        assert [node for node, _, _ in rows] == list(range(first, first + count))
        last = {node: node for node, _, _ in rows}
        for node, parent, _ in reversed(rows):
            assert (parent is None) == (node == first)
            if parent is not None:
                assert first <= parent < node
                last[parent] = max(last[parent], last[node])
        assert {node: end for node, _, end in rows} == last
    texts = "SELECT count(*) - count(DISTINCT value) FROM text"
    assert connection.execute(texts).fetchone() == (0,)
    for query in ("SELECT count(*) FROM node_view", "SELECT count(*) FROM tensor_view"):
        connection.execute(query)
    return connection


def check_names(
    connection: sqlite3.Connection, side: str, construct: Mapping[str, Any], data: Mapping[str, Any]
) -> None:
    """Every call is in the tree exactly once, every record that is one too."""
    stored = Counter(
        name for (name,) in connection.execute("SELECT name FROM node_view WHERE side = ?", (side,))
    )
    records = {name for name, record in data.items() if isinstance(record, dict)}
    special = {"DefaultModel", "megatron_micro_step_number"}
    expected = Counter(as_stored(name) for name in (set(construct) | records) - special)
    assert not expected - stored
    # What else is there was added: the root, parents without entry, collections.
    entries = [value for name, value in construct.items() if name not in special]
    parents = {value[0] if isinstance(value, list) else value for value in entries}
    for name in stored - expected:
        is_collection = name.startswith("Apis_Between_Modules.")
        assert name == "DefaultModel" or is_collection or name in map(as_stored, parents - {None})
    left_out = len(data) - len(records - {"DefaultModel"})
    counted = connection.execute(
        "SELECT coalesce(sum(count), 0) FROM diagnostic"
        " WHERE code = 'malformed_record' AND side = iif(? = 'npu', 0, 1)",
        (side,),
    )
    assert counted.fetchone() == (left_out,)


def as_stored(name: str) -> str:
    """Lone surrogates cannot be stored and become escapes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def is_one_sentence(text: str) -> bool:
    """Whether an error reads as one sentence for a person."""
    return text.endswith(".") and "\n" not in text and "Traceback" not in text and len(text) < 2000


def read_json(path: Path) -> Any:
    """The content of a file."""
    return json.loads(path.read_text(encoding="utf-8"))
