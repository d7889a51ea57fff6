"""``msprobe-build report``: what a database holds as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK, whole_number
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the report."""
    parser.description = (
        "Write what a .vis.db holds as one HTML file that needs nothing else: overview,\n"
        "worst nodes with their tensors and call stacks, unmatched nodes, what the build noticed."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", type=Path, required=True, help="the report"
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=whole_number(1, 10_000),
        default=20,
        help="how many nodes to show (default 20)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the report."""
    from msprobe_builder.export.report import write_report

    write_report(options.database, options.output, options.nodes)
    print_lines([line(fact("label.written"), str(options.output))])
    return EXIT_OK
