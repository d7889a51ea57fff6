"""``msprobe-build upgrade``: a copy of an older database in today's form."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the upgrade."""
    parser.description = (
        "Write a copy of a .vis.db of an older version in today's form. Reading an older file\n"
        "needs no upgrade, unless a message asks for it; the file itself stays as it is."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="COPY.vis.db", type=Path, required=True, help="the copy"
    )


def run(options: argparse.Namespace) -> int:
    """Write the copy."""
    from msprobe_builder.database.upgrade import upgraded_copy

    version = upgraded_copy(options.database, options.output)
    print_lines([tell(fact("verify.upgraded", file=str(options.output), version=version))])
    return EXIT_OK
