"""``msprobe-build trend``: statistics over many steps as a database for the viewer."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_INCOMPLETE, EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact, text_fact

_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Write the statistics of many steps and ranks as one .trend.db, which the viewer shows as\n"
        "heat maps and curves: of what the collector's monitor recorded, of dumps of many steps,\n"
        "or of a .trend.db of the reference tool (version 26)."
    )
    parser.add_argument("source", metavar="DIR", type=Path, help="monitor, dumps, or a .trend.db")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="directory of the result"
    )
    parser.add_argument("--output-name", metavar="NAME", help="name of the file")


def run(options: argparse.Namespace) -> int:
    """Write the database and say what it holds."""
    from msprobe_builder.trend.build import build_trend

    report = build_trend(options.source, options.output, options.output_name)
    counts = {"targets": report.targets, "ranks": report.ranks, "steps": report.steps}
    skipped = [text_fact(one) for one in report.skipped[:_SHOWN]]
    if len(report.skipped) > _SHOWN:
        skipped.append(fact("trend.more", count=len(report.skipped) - _SHOWN))
    written = fact("trend.written", file=str(report.path), values=report.values)
    print_lines(
        [
            line(fact("label.read"), fact("trend.read", kind=report.source, **counts)),
            *(line(fact("label.skipped"), one) for one in skipped),
            line(fact("label.written"), written),
        ]
    )
    return EXIT_INCOMPLETE if report.skipped else EXIT_OK
