"""One HTML file that says what a database holds, to attach or to mail."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.database.read.meta import read_side_names
from msprobe_builder.database.whole import opened_whole
from msprobe_builder.export.report_content import read_report
from msprobe_builder.export.report_page import page
from msprobe_builder.facts.wording import calling


def write_report(database: Path, output: Path, nodes: int = 20) -> None:
    """Write what ``database`` holds, with its ``nodes`` worst nodes, as HTML to ``output``."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output} has not the suffix .html; give the name of the report with -o.")
    with opened_whole(database) as connection, calling(read_side_names(connection)):
        text = page(read_report(connection, nodes, database.name))
    with written(output) as stream:
        stream.write(text.encode("utf-8", errors="replace"))
