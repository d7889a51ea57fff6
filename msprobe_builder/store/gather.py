"""Joining the databases of many steps and ranks into one.

Each shard numbers its nodes, stacks and frames from 1, so they are shifted; texts are looked up,
so that a text shared by all ranks is stored once.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

# Per table: what each column is. "text" ids are translated, the others shifted; "-" is kept.
_COLUMNS = {
    "graph": {"graph_id": "graph", "first_node": "node"},
    "node": {
        "node_id": "node",
        "graph_id": "graph",
        "parent_id": "node",
        "subtree_end": "node",
        "stem_id": "text",
        "stack_id": "stack",
    },
    "unrecorded": {"node_id": "node"},
    "rollup": {"node_id": "node"},
    "match": {"npu_node": "node", "bench_node": "node"},
    "unmatched": {"node_id": "node", "candidate_id": "node"},
    "tensor": {
        "node_id": "node",
        "name_id": "text",
        "type_id": "text",
        "dtype_id": "text",
        "shape_id": "text",
    },
    "argument": {"node_id": "node", "name_id": "text", "type_id": "text", "value_id": "text"},
    "comparison": {"npu_node": "node", "note_id": "text"},
    "frame": {
        "frame_id": "frame",
        "file_id": "text",
        "function_id": "text",
        "source_id": "text",
    },
    "stack": {"stack_id": "stack", "frame_id": "frame"},
    "communication": {"node_id": "node", "partner_id": "node"},
    "overflow_parameter": {"node_id": "node"},
    "origin": {"node_id": "node"},
    "merge_recipe": {"node_id": "node", "recipe_id": "text"},
    "merge_data": {"node_id": "node"},
    "merge_directory": {"graph_id": "graph"},
    "diagnostic": {"diagnostic_id": "diagnostic"},
}
_SHIFTED = {
    "node": "SELECT max(node_id) FROM node",
    "graph": "SELECT max(graph_id) FROM graph",
    "stack": "SELECT max(stack_id) FROM stack",
    "frame": "SELECT max(frame_id) FROM frame",
    "diagnostic": "SELECT max(diagnostic_id) FROM diagnostic",
}


class Gatherer:
    """Appends shards to an open database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[str, int] = {
            value: text_id for text_id, value in connection.execute("SELECT * FROM text")
        }

    def append(self, shard: Path) -> None:
        """Copy all rows of one shard."""
        run = self._connection.execute
        if self._connection.in_transaction:
            run("COMMIT")
        run("ATTACH ? AS shard", (str(shard),))
        run("BEGIN")
        self._map_texts()
        shift = {kind: run(query).fetchone()[0] or 0 for kind, query in _SHIFTED.items()}
        for table, kinds in _COLUMNS.items():
            columns = [row[1] for row in run(f"PRAGMA main.table_info({table})")]
            values = [_translated(column, kinds.get(column), shift) for column in columns]
            # Table and column names are our own schema's.
            run(f"INSERT INTO main.{table} SELECT {', '.join(values)} FROM shard.{table}")
        run("DROP TABLE temp.text_map")
        run("COMMIT")
        run("DETACH shard")

    def _map_texts(self) -> None:
        run = self._connection.execute
        run("CREATE TEMP TABLE text_map (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
        fresh = []
        pairs = []
        for old, value in run("SELECT text_id, value FROM shard.text").fetchall():
            new = self._texts.get(value)
            if new is None:
                new = self._texts[value] = len(self._texts) + 1
                fresh.append((new, value))
            pairs.append((old, new))
        self._connection.executemany("INSERT INTO main.text VALUES (?, ?)", fresh)
        self._connection.executemany("INSERT INTO temp.text_map VALUES (?, ?)", pairs)


def _translated(column: str, kind: str | None, shift: dict[str, int]) -> str:
    if kind is None:
        return column
    if kind == "text":
        return f"(SELECT new FROM temp.text_map WHERE old = {column})"
    return f"{column} + {shift[kind]}"
