"""``msprobe-build page``: the viewer itself, with what it shows, as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK, whole_number
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.wording import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the page."""
    parser.description = (
        "Write the viewer with a .vis.db in it as one HTML file that opens from disk, without any\n"
        "server, and changes nothing. What does not fit is left out and said on the page: first\n"
        "the tensors of nodes without error; graphs can be chosen with --step and --rank."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", type=Path, required=True, help="the page"
    )
    for word in ("step", "rank"):
        parser.add_argument(
            f"--{word}",
            metavar="N",
            type=whole_number(0),
            action="append",
            help=f"only this {word}; may be given more than once",
        )
    parser.add_argument(
        "--size",
        metavar="MB",
        type=whole_number(1, 500),
        default=8,
        help="the largest page, in megabytes (default 8)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    from tb_graph_ascend.page.write import write_page

    steps, ranks = (
        None if given is None else frozenset(given) for given in (options.step, options.rank)
    )
    written = write_page(options.database, options.output, steps, ranks, options.size * 10**6)
    print_lines([tell(written)])
    return EXIT_OK
