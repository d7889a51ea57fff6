"""``msprobe-build gradients``: at which step and parameter two trainings part."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the comparison."""
    parser.description = (
        "Compare two records of gradients (task grad_probe of the collector): the share of equal\n"
        "signs and the norms of every parameter at every step, and the first that part."
    )
    parser.add_argument("first", metavar="A", type=Path, help="dump_path of the run under test")
    parser.add_argument("second", metavar="B", type=Path, help="dump_path of the reference")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="directory of the result"
    )
    parser.add_argument("--plots", action="store_true", help="draw a picture of each parameter")


def run(options: argparse.Namespace) -> int:
    """Compare, write and say where the runs part."""
    from msprobe_checks.gradients.similarity import compare_gradients
    from msprobe_checks.gradients.write import summary_lines, write_all

    comparison = compare_gradients(options.first, options.second)
    write_all(comparison, options.output, options.plots)
    print_lines([*summary_lines(comparison), line(fact("label.written"), str(options.output))])
    return EXIT_OK
