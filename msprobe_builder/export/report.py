"""``msprobe-build report``: one HTML file that says what a database holds, to attach or to mail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from msprobe_builder.errors import BuildError, UsageError
from msprobe_builder.export.publish import published
from msprobe_builder.export.report_content import read_report
from msprobe_builder.export.report_page import page
from msprobe_builder.export.source import opened


def main(arguments: Sequence[str]) -> int:
    """Run ``msprobe-build report``; returns the exit status, as the build does."""
    options = _parser().parse_args(arguments)
    try:
        write_report(options.database, options.output, options.nodes)
    except UsageError as error:
        print(f"msprobe-build: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"msprobe-build: {error}", file=sys.stderr)
        return 1
    return 0


def write_report(database: Path, output: Path, nodes: int = 20) -> None:
    """Write what ``database`` holds, with its ``nodes`` worst nodes, as HTML to ``output``."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output} has not the suffix .html; give the name of the report with -o.")
    with opened(database) as connection:
        text = page(database.name, read_report(connection, nodes))
    with published(output) as stream:
        stream.write(text.encode("utf-8", errors="replace"))


def _parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="msprobe-build report",
        description="Write what a .vis.db holds as one HTML file that needs nothing else: overview,"
        " worst nodes with their tensors and call stacks, unmatched nodes, what the build noticed.",
        allow_abbrev=False,
    )
    result.add_argument("database", metavar="FILE.vis.db", type=Path)
    result.add_argument(
        "-o", "--output", metavar="FILE.html", type=Path, required=True, help="the report"
    )
    result.add_argument(
        "--nodes", metavar="N", type=_count, default=20, help="how many nodes to show (default 20)"
    )
    return result


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10000")
    return int(text)
