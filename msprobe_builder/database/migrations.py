"""The history of the schema: what each version added, and how a file of an older one catches up.

A file is read as it is (:func:`read_as_current`), without writing to it or copying it, or it is
brought up to date for good (:func:`migrate`). docs/design/database.md says how to add a step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from msprobe_builder.base.codes import SKETCH_METRICS
from msprobe_builder.database.layout import (
    Layout,
    current_layout,
    read_layout,
    schema_text,
    table_columns,
)
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.files.problems import FileError


@dataclass(frozen=True)
class Step:
    """What a version added to the one before it.

    Tables and columns are made as ``schema.sql`` has them where a file lacks them; indexes and
    views follow by themselves. ``renamed`` are tables with the old and new name of a column.
    ``rewrite`` comes first and changes what is there already; it runs in a transaction.
    """

    version: int
    what: str
    tables: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # of tables that were there already
    renamed: tuple[tuple[str, str, str], ...] = ()
    rewrite: Callable[[sqlite3.Connection], None] | None = None


def _complete_version_1(connection: sqlite3.Connection) -> None:
    """Version 1 grew without a new number; its oldest files hold two tables in another form."""
    if "recipe" in _names(connection, "merge_recipe"):
        for statement in (
            "INSERT INTO text (value) SELECT DISTINCT recipe FROM merge_recipe"
            " WHERE recipe NOT IN (SELECT value FROM text)",
            "CREATE TEMP TABLE recipe_before AS SELECT node_id, ordinal, (SELECT min(text_id)"
            " FROM text WHERE value = recipe) AS recipe_id FROM merge_recipe",
            "DROP TABLE merge_recipe",
            "CREATE TABLE merge_recipe (node_id INTEGER NOT NULL REFERENCES node,"
            " ordinal INTEGER NOT NULL, recipe_id INTEGER NOT NULL REFERENCES text,"
            " PRIMARY KEY (node_id, ordinal)) WITHOUT ROWID",
            "INSERT INTO merge_recipe SELECT node_id, ordinal, recipe_id FROM recipe_before",
            "DROP TABLE temp.recipe_before",
        ):
            connection.execute(statement)
    if "batch" not in _names(connection, "edit"):  # from before there were any edits
        connection.execute("DROP TABLE IF EXISTS edit")


STEPS = (
    Step(
        2,
        "What a file of version 1 may lack, because the number stayed while the schema grew.",
        tables=("unrecorded", "edit", "unmatched_before", "merge_data", "merge_directory"),
        columns=(("merge_recipe", "recipe_id"),),
        rewrite=_complete_version_1,
    ),
    Step(
        3,
        "Matches that were found by evidence.",
        columns=(("match", "evidence"), ("match", "certainty")),
    ),
    Step(4, "The verdict.", tables=("verdict", "suspect", "role", "propagation")),
    Step(
        5,
        "Ranks and stages of a parallel merge that differ in what they should have alike.",
        tables=("disagreement",),
    ),
    Step(6, "What running single calls again has found.", tables=("operator_check",)),
    Step(
        7,
        "Groups of calls, likely partners, automatic matches that a person judged, and what steps "
        "and ranks can be added to.",
        tables=(
            *("likely", "call_group", "group_member", "group_comparison"),
            *("suspect_alone", "verdict_alone"),
        ),
        columns=(("edit", "evidence"), ("edit", "certainty"), ("graph", "inputs")),
    ),
    Step(
        8,
        "What the configurations of both runs differ in.",
        tables=("configuration", "configuration_difference"),
    ),
    Step(9, "Columns of large graphs, packed.", tables=("packed_column",)),
    Step(
        10,
        "Which ranks of a merged model a suspect's arguments are off on.",
        columns=(("suspect", "ranks"),),
    ),
    # What was a sentence stays one: facts/fact.py reads both.
    Step(
        11,
        "Facts instead of sentences.",
        renamed=(("suspect", "heirs", "followers"),),
    ),
    Step(12, "What one run is checked by.", tables=("evidence",)),
    Step(
        13,
        "What sketches tell of differences.",
        columns=(
            ("tensor", "sketch"),
            *(
                (table, column)
                for table in ("comparison", "group_comparison")
                for column in (*SKETCH_METRICS[1:], "slices")
            ),
        ),
    ),
    Step(14, "Where NaN and infinity began.", tables=("not_finite",)),
    Step(15, "The loss of each step and rank.", columns=(("graph", "loss"),)),
    Step(16, "What a verdict weighed.", tables=("weighed",)),
)
# Versions that files outside this repository may have: a file of each lies in tests/data.
RELEASED = (1,)
assert [step.version for step in STEPS] == sorted({step.version for step in STEPS})
SCHEMA_VERSION = STEPS[-1].version


def lay_out(connection: sqlite3.Connection) -> None:
    """Make an empty database of the current version."""
    connection.executescript(f"{schema_text()}\nPRAGMA user_version = {SCHEMA_VERSION};")


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring the open database up to date in the caller's transaction; whether it was older.

    DamagedError when it lacks what its own version had.
    """
    [[version]] = connection.execute("PRAGMA user_version")
    steps = [step for step in STEPS if step.version > version]
    if not steps:
        return False
    target = current_layout()
    _drop_views(connection)  # a view of a table that goes would stop its going
    for step in steps:
        if step.rewrite is not None:
            step.rewrite(connection)
        there = read_layout(connection)
        for table in step.tables:
            if table not in there.tables:
                connection.execute(target.tables[table])
        for table, old, new in step.renamed:
            if old in there.column_names(table):
                connection.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        for table, column in step.columns:
            if column not in there.column_names(table) and table in there.tables:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {_added(table, column)}")
    there = read_layout(connection)
    _require(there, target)
    for name, statement in target.indexes.items():
        if name not in there.indexes:
            connection.execute(statement)
    for statement in target.views.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return True


def read_as_current(connection: sqlite3.Connection, name: str, version: int) -> None:
    """Let the connection, and it alone, see an older file as one of the current version.

    What the file lacks is put before it in the connection's temporary schema: empty tables,
    columns of NULL or their default, today's views. FileError when that cannot be said without
    rewriting rows.
    """
    steps = [step for step in STEPS if step.version > version]
    target, there = current_layout(), read_layout(connection)
    added = {table for step in steps for table in step.tables}
    _require(there, target, except_for=added)
    renamed = {(table, new): old for step in steps for table, old, new in step.renamed}
    for table, statement in target.tables.items():
        if table not in there.tables:
            connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
            continue
        known = there.column_names(table)
        missing = [column for column in target.columns[table] if column.name not in known]
        values = {
            column.name: renamed.get((table, column.name)) or column.default for column in missing
        }
        if any(column.not_null and values[column.name] is None for column in missing):
            raise FileError(
                "older_schema",
                f"{name} has schema version {version} in a form that must be rewritten first.",
                f"Make a current copy: msprobe-build upgrade {name} -o COPY.vis.db",
            )
        if missing:
            listed = ", ".join(f"{value or 'NULL'} AS {name}" for name, value in values.items())
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {listed} FROM main.{table}")
    for statement in target.views.values():
        connection.execute(statement.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))


def _require(there: Layout, target: Layout, except_for: set[str] | None = None) -> None:
    missing = target.tables.keys() - there.tables.keys() - (except_for or set())
    if missing:
        raise DamagedError(f"table {min(missing)} is missing")


def _drop_views(connection: sqlite3.Connection) -> None:
    for view in read_layout(connection).views:
        quoted = view.replace('"', '""')
        connection.execute(f'DROP VIEW "{quoted}"')


def _added(table: str, column: str) -> str:
    found = next(one for one in current_layout().columns[table] if one.name == column)
    constraint = " NOT NULL" if found.not_null else ""
    default = "" if found.default is None else f" DEFAULT {found.default}"
    return f"{column} {found.type}{constraint}{default}"


def _names(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(column.name for column in table_columns(connection, table))
