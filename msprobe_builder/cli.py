"""The command ``msprobe-build``."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msprobe_builder.config import BuildConfig, read_config
from msprobe_builder.errors import BuildError, UsageError
from msprobe_builder.export import report, table
from msprobe_builder.merged_export import export_merged
from msprobe_builder.operator_log import operator_lines
from msprobe_builder.pipeline import build
from msprobe_builder.summary import export_json, export_lines, summary_json, summary_lines
from msprobe_builder.version import __version__

EXIT_OK = 0
EXIT_CANNOT_BUILD = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3

_EPILOG = """\
compare.json:
  npu_path              directory of the dump under debug (required)
  bench_path            directory of the reference dump; without it one dump
                        is shown alone
  is_print_compare_log  print one line per operator that is not ok
                        (default true)
  parallel_merge        merge the ranks of each side into whole models first:
                        an object with npu and, to compare, bench, each with
                        rank_size, tp, pp, and when needed vpp, order

msprobe-build report FILE.vis.db -o report.html:
  write what a database holds as one HTML file; see msprobe-build report --help

msprobe-build export FILE.vis.db -o nodes.csv:
  write its nodes or tensors as a table; see msprobe-build export --help

exit status:
  0  the database was written
  1  it cannot be built; nothing was written
  2  wrong usage
  3  written, but some steps or ranks could not be read
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    result = argparse.ArgumentParser(
        prog="msprobe-build",
        description="Rebuild the module hierarchy of numeric dumps, compare two runs and\n"
        "write one .vis.db file for TensorBoard.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument(
        "-i",
        "--input-path",
        "--input_path",
        metavar="FILE",
        required=True,
        type=Path,
        dest="input_path",
        help="compare.json: what to build, see below",
    )
    result.add_argument(
        "-o",
        "--output-path",
        "--output_path",
        metavar="DIR",
        type=Path,
        dest="output_path",
        help="directory of the result, created when missing; required, but for --export-merged",
    )
    result.add_argument(
        "-f",
        "--fuzzy-match",
        "--fuzzy_match",
        action="store_true",
        dest="fuzzy_match",
        help="match modules by name alone and the calls inside them in their order",
    )
    result.add_argument(
        "-lm",
        "--layer-mapping",
        "--layer_mapping",
        metavar="FILE",
        nargs="?",
        type=Path,
        const=True,
        dest="layer_mapping",
        help="match modules by their layer, whatever their class; FILE (YAML) translates layers "
        "that are called differently",
    )
    result.add_argument(
        "--match-file",
        metavar="FILE",
        type=Path,
        help="match the pairs of nodes in FILE (JSON) first, whatever the rule",
    )
    result.add_argument(
        "-oc",
        "--overflow-check",
        "--overflow_check",
        action="store_true",
        dest="overflow_check",
        help="find where NaN and infinity come from: mark each call medium, high or critical",
    )
    result.add_argument(
        "--export-merged",
        metavar="DIR",
        type=Path,
        help="write the models that parallel_merge makes as ordinary dumps into DIR, which must "
        "be empty or missing; alone or beside -o",
    )
    result.add_argument(
        "--allow-missing",
        action="store_true",
        help="compare the steps and ranks that both sides have instead of stopping",
    )
    result.add_argument(
        "--output-name",
        metavar="NAME",
        help="name of the result instead of compare_{timestamp}.vis.db or build_{timestamp}.vis.db",
    )
    result.add_argument(
        "--workers",
        metavar="N",
        type=_positive,
        help="processes for several ranks or steps (default: one per core)",
    )
    result.add_argument("--quiet", action="store_true", help="print nothing but errors")
    result.add_argument("--json", action="store_true", help="print the summary as JSON")
    result.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["report"]:
        return report.main(given[1:])
    if given[:1] == ["export"]:
        return table.main(given[1:])
    known = parser()
    options = known.parse_args(given)
    if options.output_path is None and options.export_merged is None:
        known.error("the following arguments are required: -o/--output-path/--output_path")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold any character
    with _stoppable():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        name = _output_name(options.output_name)
        config = read_config(options.input_path)
        config = replace(
            config,
            options=replace(
                config.options,
                fuzzy_match=options.fuzzy_match,
                layer_mapping=options.layer_mapping is not None,
                layer_mapping_file=None if options.layer_mapping is True else options.layer_mapping,
                match_file=options.match_file,
                overflow_check=options.overflow_check,
                allow_missing=options.allow_missing,
            ),
        )
        quiet = options.quiet or options.json
        if options.output_path is None:
            return _export_alone(config, options, quiet=quiet)
        result = build(
            config,
            options.output_path,
            name=name,
            workers=options.workers,
            quiet=quiet,
            export_to=options.export_merged,
        )
    except UsageError as error:
        return _fail(error, EXIT_USAGE)
    except BuildError as error:
        return _fail(error, EXIT_CANNOT_BUILD)
    except KeyboardInterrupt:
        return _fail(BuildError("Stopped; nothing was written."), EXIT_CANNOT_BUILD)
    if options.json:
        print(summary_json(result))
    elif not options.quiet:
        if config.print_compare_log and result.is_comparison:
            for line in operator_lines(result.path):
                print(line)
        for line in summary_lines(result):
            print(line)
    return EXIT_INCOMPLETE if result.failed else EXIT_OK


def _export_alone(config: BuildConfig, options: argparse.Namespace, *, quiet: bool) -> int:
    for key in ("fuzzy_match", "layer_mapping", "match_file", "overflow_check", "output_name"):
        if getattr(options, key):
            flag = f"--{key.replace('_', '-')}"
            raise UsageError(f"{flag} has no effect without a database; give one with -o.")
    result = export_merged(config, options.export_merged, workers=options.workers, quiet=quiet)
    if options.json:
        print(export_json(result))
    elif not options.quiet:
        for line in export_lines(result):
            print(line)
    return EXIT_INCOMPLETE if result.failed else EXIT_OK


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a termination end the build as Ctrl-C does: cleanly, and only once."""

    def stop(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):
        numbers.append(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(error: BuildError, status: int) -> int:
    print(f"msprobe-build: {error}", file=sys.stderr)
    return status


def _output_name(name: str | None) -> str | None:
    if name is None:
        return None
    if Path(name).name != name or name in (".", ".."):
        raise UsageError(
            f"--output-name {name!r} must be a plain file name; give the directory with -o."
        )
    return name if name.endswith(".vis.db") else f"{name}.vis.db"


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
