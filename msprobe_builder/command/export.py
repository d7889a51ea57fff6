"""``msprobe-build export``: the nodes or tensors of a database as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.base.codes import SIDES, Grade, words
from msprobe_builder.command.frame import EXIT_OK, whole_number
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the export."""
    parser.description = (
        "Write the nodes of a .vis.db, or its tensors beside those they were compared with,\n"
        "as a table: one line each, by step, rank and order of execution."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE.csv",
        type=Path,
        required=True,
        help="the table: .csv or .tsv, compressed with .gz behind it",
    )
    parser.add_argument(
        "--table",
        choices=("nodes", "tensors"),
        default="nodes",
        help="one line per node (default), or per pair of tensors",
    )
    parser.add_argument("--side", choices=SIDES, action="append", default=[], help="only this side")
    for what in ("step", "rank"):
        parser.add_argument(
            f"--{what}",
            metavar="N",
            type=whole_number(0),
            action="append",
            default=[],
            help=f"only this {what}; may be given several times",
        )
    parser.add_argument(
        "--grade",
        choices=words(Grade),
        action="append",
        default=[],
        help="only nodes of this grade; may be given several times",
    )
    parser.add_argument(
        "--name", metavar="TEXT", default="", help="only nodes whose name contains this"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Write the table."""
    from msprobe_builder.database.read.tables import Selection
    from msprobe_builder.export.table import export_table

    selection = Selection(
        sides=tuple(options.side),
        steps=tuple(options.step),
        ranks=tuple(options.rank),
        grades=tuple(options.grade),
        name=options.name,
    )
    count = export_table(options.database, options.output, options.table, selection)
    if not options.quiet:
        print_lines([tell(fact("table.rows", file=str(options.output), rows=count))])
    return EXIT_OK
