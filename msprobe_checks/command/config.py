"""``msprobe-build config``: what differs between two runs before anything is computed."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK, add_language
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of both commands."""
    parser.description = (
        "Collect what shapes a training (environment, packages, options), and compare two of\n"
        "these. ConfigChecker in msprobe_collector adds weights, data and random calls."
    )
    commands = parser.add_subparsers(dest="half", required=True, metavar="collect|compare")
    collect = commands.add_parser("collect", help="write what is here into a zip file")
    collect.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="launch scripts (.sh), .yaml, .json"
    )
    collect.add_argument(
        "-o", "--output", type=Path, metavar="FILE.zip", default=Path("config_check_pack.zip"),
        help="default: %(default)s",
    )  # fmt: skip
    compare = commands.add_parser("compare", help="compare two of these files")
    compare.add_argument(
        "bench", type=Path, metavar="BENCH.zip",
        help="of the reference run, or a log of verl or slime, or a YAML of options that must hold",
    )  # fmt: skip
    compare.add_argument(
        "other",
        type=Path,
        metavar="CMP.zip",
        help="of the run under test, or a log of verl or slime",
    )
    compare.add_argument(
        "-o", "--output", type=Path, metavar="DIR", default=Path("config_check_result"),
        help="directory of result.xlsx and result.html (default: %(default)s)",
    )  # fmt: skip
    for half in (collect, compare):
        add_language(half, again=True)


def run(options: argparse.Namespace) -> int:
    """Collect or compare."""
    written = line(fact("label.written"), str(options.output))
    if options.half == "collect":
        from msprobe_checks.configuration.collect import collect_static

        counts = collect_static(options.files, options.output)
        print_lines([tell(fact("configuration.collected", **counts)), written])
        return EXIT_OK
    from msprobe_builder.configuration.compare import compare_packs
    from msprobe_builder.configuration.pack import read_pack
    from msprobe_checks.configuration.logs import CONFIGURATIONS, LOGS, as_far_as, read_options
    from msprobe_checks.configuration.write import summary_lines, write_all

    is_printed = (*LOGS, *CONFIGURATIONS)
    bench, other = (
        read_options(one) if one.suffix in is_printed else read_pack(one)
        for one in (options.bench, options.other)
    )
    if options.bench.suffix in CONFIGURATIONS and options.other.suffix in LOGS:
        other = as_far_as(other, bench)
    comparison = compare_packs(bench, other)
    write_all(comparison, options.output)
    print_lines([*summary_lines(comparison), written])
    return EXIT_OK
