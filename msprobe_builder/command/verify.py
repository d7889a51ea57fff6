"""``msprobe-build verify``: whether a database is whole, and saving matches of one that is not."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_CANNOT_BUILD, EXIT_OK
from msprobe_builder.command.output import print_error, print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the check."""
    parser.description = (
        "Check a .vis.db: its pages, tables and rows, and how they hang together. Prints what is\n"
        "wrong, one line each, and ends with status 1 if anything is. Nothing is written to it."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument(
        "--save-matches",
        metavar="FILE.json",
        type=Path,
        help="write the matches made by hand as a match file, also of a damaged file",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Check one file."""
    import json

    from msprobe_builder.base.errors import BuildError, UsageError
    from msprobe_builder.base.publish import written
    from msprobe_builder.database.verify import saved_matches, verify

    if options.save_matches is not None:
        matches = saved_matches(options.database)
        with written(options.save_matches) as stream:
            stream.write(json.dumps({"version": 1, "matches": matches}, indent=1).encode())
        if not options.quiet:
            saved = str(options.save_matches)
            print_lines([tell(fact("verify.matches", file=saved, matches=len(matches)))])
    try:
        findings = verify(options.database)
    except UsageError:
        raise
    except BuildError as error:
        print_error(error)
        return EXIT_CANNOT_BUILD
    for finding in findings:
        print_error(f"{options.database}: {tell(finding)}")
    if not findings and not options.quiet:
        print_lines([tell(fact("verify.whole", file=str(options.database)))])
    return EXIT_CANNOT_BUILD if findings else EXIT_OK
