"""What writing a table costs: python benchmarks/tables.py FILE.vis.db [xlsx|csv|parquet]."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from msprobe_builder.base.memory import peak_memory
from msprobe_builder.tables.export import TableOptions, export_tables


def main(database: Path, form: str) -> None:
    """Write every table of the file once, and print rows, CPU seconds and memory."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        written = export_tables(database, Path(folder), TableOptions(form=form))
        spent = time.process_time() - began
    rows = sum(one.rows for one in written)
    memory = (peak_memory() or 0) / 2**20
    print(f"{form}: {rows:,} rows, {spent:.2f} s CPU, {memory:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "xlsx")
