"""``msprobe-build import``: a file of the tool this one replaces as a database of ours."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the import."""
    parser.description = (
        "Write a .vis.db of versions 8 or 26 of the reference tool, or a .vis of versions before,\n"
        "in today's form. Its matches are kept, errors and grades are measured again; the file\n"
        "itself stays as it is."
    )
    parser.add_argument("database", metavar="OLD.vis.db", type=Path)
    parser.add_argument(
        "-o",
        "--output",
        metavar="NEW.vis.db",
        type=Path,
        help="the result (default: OLD.imported.vis.db beside the file)",
    )


def run(options: argparse.Namespace) -> int:
    """Import one file."""
    from msprobe_builder.command.summary import summary_lines
    from msprobe_builder.database.open import require_file
    from msprobe_builder.importers.reference import import_reference

    old: Path = options.database
    require_file(old)
    beside = old.with_name(f"{old.name.removesuffix('.db').removesuffix('.vis')}.imported.vis.db")
    print_lines(summary_lines(import_reference(old, options.output or beside)))
    return EXIT_OK
