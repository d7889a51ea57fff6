"""Joining the databases of many steps and ranks into one.

Each shard numbers its nodes, stacks and frames from 1, so they are shifted; texts are looked up,
so that a text shared by all ranks is stored once. Which columns hold such numbers follows from the
foreign keys of the schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.late_columns import complete, require_columns
from msprobe_builder.database.layout import current_layout, schema_text
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.database.write.packed import pack

_LOOKUPS = ("meta", "text", "grade", "unmatched_reason")  # of the first shard, or merged by value
# Ids that SQLite cannot be told to refer to: a stack is many rows, ranges end with a node.
_UNDECLARED = {
    ("node", "stack_id"): "stack",
    ("stack", "stack_id"): "stack",
    ("node", "subtree_end"): "node",
    ("graph", "first_node"): "node",
    ("edit", "batch"): "edit",
}


@lru_cache(maxsize=1)
def references() -> dict[str, dict[str, str]]:
    """Per table that is copied, the columns that hold ids and the table whose ids they are.

    What refers to a table, by its foreign keys, moves with it; ids of texts are translated. A
    table that numbers its own rows does so in a column of its name with ``_id``.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema_text())
        found: dict[str, dict[str, str]] = {}
        moving = {"text", *current_layout().tables.keys() - set(_LOOKUPS)}
        for table, columns in current_layout().columns.items():
            if table in _LOOKUPS:
                continue
            keys = connection.execute(
                'SELECT "from", "table" FROM pragma_foreign_key_list(?)', (table,)
            )
            kinds = {column: other for column, other in keys if other in moving}
            own = f"{table}_id"
            if own not in kinds and any(column.name == own and column.key for column in columns):
                kinds[own] = table
            for (owner, column), kind in _UNDECLARED.items():
                if owner == table:
                    kinds[column] = kind
            found[table] = kinds
        return found


@contextmanager
def finishing(path: Path) -> Iterator[sqlite3.Connection]:
    """The first shard, open to take in the others; on leaving it is a database."""
    with closing(connect_own(path)) as connection:
        without_journal(connection)
        yield connection
        connection.execute("DELETE FROM packed_column")  # of a file that was added to
        connection.execute("COMMIT")
        # A rollback journal: these files are copied around and lie on network file systems.
        connection.execute("PRAGMA journal_mode = DELETE")
    pack(path)


def without_journal(connection: sqlite3.Connection) -> None:
    """Write to a file that nobody looks at before it is whole, rows of our own making."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "ignore_check_constraints = ON"):
        connection.execute(f"PRAGMA {pragma}")


def task_of_shard(path: Path) -> str:
    """What was dumped of the step and rank in a shard."""
    with closing(connect_own(path)) as connection:
        return read_task(connection).value


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
        alike = self._map_texts()
        run("INSERT OR IGNORE INTO main.unmatched_reason SELECT * FROM shard.unmatched_reason")
        shift = {table: self._last_id(table) for table in _numbered()}
        for table, kinds in references().items():
            columns = [row[1] for row in run(f"PRAGMA shard.table_info({table})")]
            require_columns(self._connection, table, columns)
            values = [_translated(column, kinds.get(column), shift, alike) for column in columns]
            # Table and column names are our own schema's.
            run(
                f"INSERT INTO main.{table} ({', '.join(columns)})"
                f" SELECT {', '.join(values)} FROM shard.{table}"
            )
        run("DROP TABLE temp.text_map")
        run("COMMIT")
        run("DETACH shard")

    def begin(self) -> None:
        """Begin the transaction for what follows from all shards, in a database with everything."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        complete(self._connection)

    def _last_id(self, table: str) -> int:
        column = f"{table}_id"
        [[last]] = self._connection.execute(f"SELECT max({column}) FROM main.{table}")
        return last or 0

    def _map_texts(self) -> int | None:
        """Up to which text those of a shard have the same ids here; None where all have.

        Ranks of one model begin with the same texts, and these stand in nearly all rows.
        """
        run = self._connection.execute
        run("CREATE TEMP TABLE text_map (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
        fresh = []
        pairs = []
        for old, value in run("SELECT text_id, value FROM shard.text ORDER BY text_id").fetchall():
            new = self._texts.get(value)
            if new is None:
                new = self._texts[value] = len(self._texts) + 1
                fresh.append((new, value))
            pairs.append((old, new))
        self._connection.executemany("INSERT INTO main.text VALUES (?, ?)", fresh)
        self._connection.executemany("INSERT INTO temp.text_map VALUES (?, ?)", pairs)
        alike = [old for old, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        return None if len(alike) == len(pairs) else max(alike, default=0)


def _numbered() -> set[str]:
    """Tables whose ids others, or they themselves, hold."""
    kinds = {kind for columns in references().values() for kind in columns.values()}
    return kinds - {"text"}


def _translated(column: str, kind: str | None, shift: dict[str, int], alike: int | None) -> str:
    if kind is None or (kind == "text" and alike is None):
        return column
    if kind == "text":
        found = f"(SELECT new FROM temp.text_map WHERE old = {column})"
        return f"CASE WHEN {column} <= {alike} THEN {column} ELSE {found} END"
    return f"{column} + {shift[kind]}"
