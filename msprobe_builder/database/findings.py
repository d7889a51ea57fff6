"""What is wrong with an open .vis.db: its layout, its rows, and how they hang together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from msprobe_builder.database.layout import current_layout, read_layout
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.facts.fact import Fact, fact

_MOST = 20  # findings of one kind
_KINDS = {
    "INTEGER": "('integer', 'null')",
    "REAL": "('real', 'integer', 'null')",
    "TEXT": "('text', 'null')",
}
_LARGEST = 2**53  # exact in float64, which carries whole columns

# What each statement finds is wrong; the first column says where.
_RULES = (
    (fact("verify.node_outside"),
     "SELECT node_id FROM node JOIN graph USING (graph_id)"
     " WHERE node_id NOT BETWEEN first_node AND first_node + node_count - 1"),
    (fact("verify.other_nodes"),
     "SELECT graph_id FROM graph WHERE node_count !="
     " (SELECT count(*) FROM node WHERE node.graph_id = graph.graph_id)"),
    (fact("verify.no_root"),
     "SELECT graph_id FROM graph WHERE (SELECT group_concat(node_id) FROM node"
     " WHERE node.graph_id = graph.graph_id AND parent_id IS NULL)"
     " IS NOT CAST(first_node AS TEXT)"),
    (fact("verify.parent"),
     "SELECT child.node_id FROM node AS child JOIN node AS parent"
     " ON parent.node_id = child.parent_id WHERE parent.graph_id != child.graph_id"
     " OR parent.node_id >= child.node_id OR parent.subtree_end < child.subtree_end"),
    (fact("verify.subtree"),
     "SELECT node_id FROM node WHERE typeof(subtree_end) != 'integer' OR subtree_end < node_id"),
    (fact("verify.match"),
     "SELECT npu_node FROM match LEFT JOIN node AS own ON own.node_id = npu_node"
     " LEFT JOIN node AS other ON other.node_id = bench_node"
     " LEFT JOIN graph AS npu ON npu.graph_id = own.graph_id"
     " LEFT JOIN graph AS bench ON bench.graph_id = other.graph_id"
     " WHERE (npu.side, bench.side) IS NOT (0, 1)"
     " OR (npu.step, npu.rank) IS NOT (bench.step, bench.rank)"),
    (fact("verify.both"),
     "SELECT node_id FROM unmatched WHERE node_id IN"
     " (SELECT npu_node FROM match UNION SELECT bench_node FROM match)"),
    (fact("verify.graded"),
     "SELECT node_id FROM node WHERE grade = 6 AND node_id IN"
     " (SELECT npu_node FROM match UNION SELECT bench_node FROM match)"),
    (fact("verify.error"),
     "SELECT node_id FROM node WHERE error IS NOT NULL AND NOT"
     " (typeof(error) IN ('real', 'integer') AND error BETWEEN 0 AND 1)"),
    (fact("verify.grade"),
     "SELECT node_id FROM node WHERE typeof(grade) != 'integer' OR grade NOT BETWEEN 0 AND 6"),
    (fact("verify.comparison"),
     "SELECT DISTINCT npu_node FROM comparison WHERE npu_node NOT IN (SELECT npu_node FROM match)"),
    (fact("verify.text"),
     "SELECT text_id FROM text WHERE typeof(value) != 'text'"),
)  # fmt: skip


def findings(connection: sqlite3.Connection) -> Iterator[Fact]:
    """What is wrong with a file, one after the other; nothing when it is whole."""
    # 'ok', or sentences of SQLite about pages, cells and indexes.
    for (sentence,) in connection.execute(f"PRAGMA integrity_check({_MOST})"):
        if sentence != "ok":
            yield fact("verify.sqlite", said=" ".join(str(sentence).split()))
    layout, wanted = read_layout(connection), current_layout()
    [[version]] = connection.execute("PRAGMA user_version")
    if version == SCHEMA_VERSION:
        for table in wanted.tables.keys() - layout.tables.keys():
            yield fact("verify.no_table", table=table)
        for table in sorted(wanted.tables.keys() & layout.tables.keys()):
            lacking = set(wanted.column_names(table)) - set(layout.column_names(table))
            for column in sorted(lacking):
                yield fact("verify.no_column", table=table, column=column)
    yield from _odd_values(connection)
    triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
    for (name,) in connection.execute(triggers):
        yield fact("verify.trigger", name=str(name))
    for table, row, other, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST):
        yield fact("verify.reference", row=str(row), table=str(table), other=str(other))
    for rule, query in _RULES:
        try:
            places = [str(row[0]) for row in connection.execute(query).fetchmany(_MOST)]
        except sqlite3.OperationalError as error:
            yield fact("verify.cannot_tell", rule=rule, error=str(error))
            continue
        if places:
            yield fact("verify.found", rule=rule, places=places)


def _odd_values(connection: sqlite3.Connection) -> Iterator[Fact]:
    """SQLite keeps any value in any column, and integers that no float of 64 bits can carry."""
    layout = current_layout()
    for table in layout.tables:
        for _, name, declared, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            kinds = _KINDS.get(declared)
            if name not in layout.column_names(table) or kinds is None:
                continue
            odd = f"typeof({name}) NOT IN {kinds}"
            if declared == "INTEGER":
                odd += f" OR {name} NOT BETWEEN -{_LARGEST} AND {_LARGEST}"
            query = f"SELECT count(*), typeof({name}) FROM {table} WHERE {odd}"
            [[count, kind]] = connection.execute(query)
            if count:
                place = {"column": str(name), "table": table}
                yield fact("verify.odd_values", **place, rows=int(count), type=str(kind))
