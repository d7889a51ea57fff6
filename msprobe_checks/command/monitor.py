"""``msprobe-build monitor``: at which step and module two monitored trainings part."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact, text_fact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the comparison."""
    parser.description = (
        "Compare what the monitor of the collector recorded of two trainings, step by step, and\n"
        "name the first step and place at which they part; or, of one training, ranks that train\n"
        "the same parameters."
    )
    parser.add_argument("first", metavar="A", type=Path, help="dump_path of the run under test")
    parser.add_argument(
        "second", metavar="B", type=Path, nargs="?", help="dump_path of the reference"
    )
    parser.add_argument(
        "--tolerance",
        metavar="X",
        type=_tolerance,
        help="relative difference of norms and means that is let pass (default 0.01; of replicas,"
        " 1e-6)",
    )
    parser.add_argument(
        "--graphs",
        metavar="DIR",
        type=Path,
        help="log directory of TensorBoard: say where the place stands in its .vis.db files",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it as JSON too")


def run(options: argparse.Namespace) -> int:
    """Compare, say where the runs part, and where to look at it."""
    from msprobe_builder.trend.places import graph_links, module_of
    from msprobe_checks.monitor.compare import TOLERANCE, compare_monitors
    from msprobe_checks.monitor.explain import summary_lines
    from msprobe_checks.monitor.write import write_json

    if options.graphs is not None and not options.graphs.is_dir():
        raise UsageError(f"--graphs {options.graphs} is no directory.")
    if options.second is None:
        return _run_replicas(options)
    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    comparison = compare_monitors(options.first, options.second, tolerance)
    lines = summary_lines(comparison)
    links: list[str] = []
    if options.graphs is not None and comparison.departures:
        first = comparison.departures[0]
        module = module_of(first.kind, first.name)
        links = list(graph_links(options.graphs, first.step, first.rank, module))
        found = list(map(text_fact, links)) or [
            fact("monitor.no_graph", folder=str(options.graphs), step=first.step, rank=first.rank)
        ]
        lines += [line(fact("label.graph"), one) for one in found]
    if options.output is not None:
        write_json(comparison, links, options.output)
        lines.append(line(fact("label.written"), str(options.output)))
    print_lines(lines)
    return EXIT_OK


def _run_replicas(options: argparse.Namespace) -> int:
    from msprobe_checks.monitor.explain_replicas import replica_lines
    from msprobe_checks.monitor.replicas import TOLERANCE, compare_replicas
    from msprobe_checks.monitor.write import write_replicas

    if options.graphs is not None:
        raise UsageError("--graphs goes with two runs; give the second one.")
    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    found = compare_replicas(options.first, tolerance)
    lines = replica_lines(found)
    if options.output is not None:
        write_replicas(found, options.output)
        lines.append(line(fact("label.written"), str(options.output)))
    print_lines(lines)
    return EXIT_OK


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return value
