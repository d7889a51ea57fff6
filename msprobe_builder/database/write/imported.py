"""What an import adds to the database that was built of what it read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.connection import connect_own, store
from msprobe_builder.database.write.pair import write_diagnostics


def complete_import(path: Path, origin: str, findings: Iterable[Diagnostic]) -> None:
    """Say where dumps that were never on a disk came from, and what the import noticed."""
    with closing(connect_own(path)) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "UPDATE meta SET value = ? WHERE key = ? AND value = 'in_memory'",
            [(origin, side) for side in ("npu_path", "bench_path")],
        )
        write_diagnostics(connection, findings)
        store(connection)
