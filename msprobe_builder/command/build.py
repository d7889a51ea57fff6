"""``msprobe-build A B -o out``: build one database from dumps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import file_name
from msprobe_builder.base.version import __version__
from msprobe_builder.command.fault import fault_sentence
from msprobe_builder.command.frame import EXIT_INCOMPLETE, EXIT_OK, whole_number
from msprobe_builder.command.mapping_file import check_free, write_found_mapping
from msprobe_builder.command.output import print_error, print_lines

if TYPE_CHECKING:
    from msprobe_builder.dump.source import Place
    from msprobe_builder.pipeline.build import BuildResult
    from msprobe_builder.pipeline.config import BuildConfig

_EPILOG = """\
compare.json:
  npu_path              directory of the dump under debug (required)
  bench_path            directory of the reference dump; without it one dump
                        is shown alone
  noise_path            a second dump of the reference: what differs from it
                        without a fault, for the verdict
  config                zip files of "msprobe-build config collect", an object
                        with npu and bench: what differs is shown first
  is_print_compare_log  print one line per operator that is not ok
                        (default true)
  parallel_merge        merge the ranks of each side into whole models first:
                        an object with npu and, to compare, bench, each with
                        rank_size, tp, pp, and when needed vpp, order

msprobe-build report FILE.vis.db -o report.html:
  write what a database holds as one HTML file; see msprobe-build report --help

msprobe-build export FILE.vis.db -o nodes.csv:
  write its nodes or tensors as a table; see msprobe-build export --help

msprobe-build table FILE.vis.db -o out:
  write the comparison as spreadsheets; see msprobe-build table --help

msprobe-build verdict FILE.vis.db:
  say which call is wrong first; see msprobe-build verdict --help

msprobe-build upgrade FILE.vis.db -o COPY.vis.db:
  write a copy of a database of an older version in today's form

msprobe-build import OLD.vis.db:
  write a database of the reference tool (versions 8 and 26) in today's form

msprobe-build verify FILE.vis.db:
  say whether a file is whole, and save matches from one that is not

msprobe-build query FILE.vis.db SQL:
  ask a file in SQL

msprobe-build schema FILE.vis.db:
  say what can be asked for

msprobe-build join-chunks DIR -o DIR:
  join the passes of a prompt that a server took in chunks into one

msprobe-build page FILE.vis.db -o page.html:
  write the viewer with its data as one HTML file that opens from disk

msprobe-build config collect | compare:
  collect what shapes a training, and say whether two may be compared

msprobe-build checkpoint A B -o similarity.json:
  compare two checkpoints of one model, however they are split or named

msprobe-build gradients A B -o out:
  say at which step and parameter the gradients of two trainings part

msprobe-build operators check DUMP -o out:
  run single operators again, as msprobe-operators does

msprobe-build alias :
  let "msprobe" stand for this program, for scripts written for it

msprobe-build monitor A B:
  say at which step and module two monitored trainings part

msprobe-build trend DIR -o out:
  write the statistics of many steps as a .trend.db, for heat maps and curves

exit status:
  0  the database was written
  1  it cannot be built; nothing was written
  2  wrong usage
  3  written, but some steps or ranks could not be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the build."""
    parser.description = (
        "Rebuild the module hierarchy of numeric dumps, compare two runs and\n"
        "write one .vis.db file for TensorBoard: msprobe-build A B -o out"
    )
    parser.epilog = _EPILOG
    parser.add_argument(
        "folders", metavar="FOLDER", type=Path, nargs="*",
        help="the dump of the run under debug, and that of the reference, if there is one",
    )  # fmt: skip
    parser.add_argument(
        "-i",
        "--input-path",
        "--input_path",
        metavar="FILE",
        type=Path,
        dest="input_path",
        help="compare.json: what to build, see below, in place of folders",
    )
    parser.add_argument(
        "-o",
        "--output-path",
        "--output_path",
        metavar="DIR",
        type=Path,
        dest="output_path",
        help="directory of the result, created when missing; required, but for --append and "
        "--export-merged",
    )
    parser.add_argument(
        "-f",
        "--fuzzy-match",
        "--fuzzy_match",
        action="store_true",
        dest="fuzzy_match",
        help="match modules by name alone and the calls inside them in their order",
    )
    parser.add_argument(
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
    parser.add_argument(
        "--match-file",
        metavar="FILE",
        type=Path,
        help="match the pairs of nodes in FILE (JSON) first, whatever the rule",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="match only what has equal names (and what -f, -lm and --match-file add); do not "
        "align the rest by evidence",
    )
    parser.add_argument(
        "--write-mapping",
        metavar="FILE",
        type=Path,
        help="write the layers that were matched under other names as a file for -lm (YAML)",
    )
    parser.add_argument(
        "-oc",
        "--overflow-check",
        "--overflow_check",
        action="store_true",
        dest="overflow_check",
        help="find where NaN and infinity come from: mark each call medium, high or critical",
    )
    parser.add_argument(
        "--export-merged",
        metavar="DIR",
        type=Path,
        help="write the models that parallel_merge makes as ordinary dumps into DIR, which must "
        "be empty or missing; alone or beside -o",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="compare the steps and ranks that both sides have instead of stopping",
    )
    parser.add_argument(
        "--output-name",
        metavar="NAME",
        help="name of the result instead of compare_{timestamp}.vis.db or build_{timestamp}.vis.db",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=whole_number(1),
        help="processes for several ranks or steps (default: one per core)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="build ranks and steps on the workers of a dask.distributed scheduler, "
        "tcp://HOST:PORT, over a shared directory; local:N starts N workers here",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        default="cpu",
        help="where the elements of real tensors are compared: cpu (default), cuda[:N], npu[:N]",
    )
    parser.add_argument(
        "--no-verdict", action="store_false", dest="verdict",
        help="compare and grade, but say nothing of who is wrong first",
    )  # fmt: skip
    parser.add_argument(
        "--without", metavar="KIND", action="append", default=[],
        help="a kind of clue, or an explanation, that the verdict leaves out (may be repeated); "
        "msprobe-build verdict FILE --explain lists them",
    )  # fmt: skip
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the ranks and steps that an interrupted build of the same request had "
        "finished, and keep what is finished should this one be interrupted",
    )
    parser.add_argument(
        "--append",
        metavar="FILE.vis.db",
        type=Path,
        help="add the ranks and steps that FILE lacks, in place of a new file in -o; FILE stays "
        "whole until the new one replaces it",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print one line per operator that is not ok"
    )
    parser.add_argument(
        "--open", action="store_true",
        help="start TensorBoard on the result and print the address, until Ctrl-C",
    )  # fmt: skip
    parser.add_argument(
        "--names", metavar="NAME", nargs="+", default=[],
        help="what the sides are called wherever they are shown; by default as their folders",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")


def run(options: argparse.Namespace) -> int:
    """Build, or only write merged dumps; returns the exit status."""
    from msprobe_builder.base.memory import give_back_arrays, without_garbage_collection
    from msprobe_builder.base.program import loading_numpy

    with without_garbage_collection(), loading_numpy():  # modules leave nothing to be collected
        from msprobe_builder.command.folders import checked_names, folders_config
        from msprobe_builder.facts.wording import calling
        from msprobe_builder.pipeline.config import read_config
        from msprobe_builder.pipeline.join import names_of_sides

    given = folders_config(options.folders) if options.folders else None
    from msprobe_builder.command.contradictions import refuse_contradictions

    refuse_contradictions(options)
    give_back_arrays()
    if options.write_mapping is not None:
        check_free(options.write_mapping)
    name = None if options.output_name is None else file_name(options.output_name)
    config = given or read_config(options.input_path)
    config = replace(
        config,
        print_compare_log=config.print_compare_log or options.verbose,
        names=checked_names(options.names, 1 if config.bench_path is None else 2),
        options=replace(
            config.options,
            fuzzy_match=options.fuzzy_match,
            exact=options.exact,
            layer_mapping=options.layer_mapping is not None,
            layer_mapping_file=None if options.layer_mapping is True else options.layer_mapping,
            match_file=options.match_file,
            overflow_check=options.overflow_check,
            flat=options.overflow_check,
            allow_missing=options.allow_missing,
            device=options.device,
            verdict=options.verdict,
            without=tuple(sorted(set(options.without))),
        ),
    )
    with calling(names_of_sides(config)):
        return _run(config, options, name)


def _run(config: BuildConfig, options: argparse.Namespace, name: str | None) -> int:
    from msprobe_builder.base.memory import leave_modules_alone, without_garbage_collection

    with without_garbage_collection():
        from msprobe_builder.pipeline.build import build

        leave_modules_alone()
    quiet = options.quiet or options.json
    if options.output_path is None and options.append is None:
        return _export_alone(config, options, quiet=quiet)
    result = build(
        config,
        options.output_path,
        name=name,
        workers=options.workers,
        scheduler=options.scheduler,
        resume=options.resume,
        append_to=options.append,
        quiet=quiet,
        export_to=options.export_merged,
    )
    is_told = _is_told(result, config, options)
    _print_failed(result.failed, quiet=options.quiet)
    return EXIT_OK if is_told and not result.failed else EXIT_INCOMPLETE


def _is_told(result: BuildResult, config: BuildConfig, options: argparse.Namespace) -> bool:
    """Say what was built; whether that could be done. The file is there, whatever happens here."""
    try:
        _tell(result, config, options)
    except (BuildError, OSError, UsageError) as error:
        print_error(f"{result.path} is written; then: {error}")
        return False
    except Exception as error:
        print_error(f"{result.path} is written; then: {fault_sentence(error)}")
        return False
    return True


def _tell(result: BuildResult, config: BuildConfig, options: argparse.Namespace) -> None:
    if options.write_mapping is not None:
        write_found_mapping(result.path, options.write_mapping)
    if options.json:
        from msprobe_builder.command.summary import summary_json

        print_lines([summary_json(result)])
    elif not options.quiet:
        from msprobe_builder.command.operator_log import operator_lines
        from msprobe_builder.command.summary import summary_lines
        from msprobe_builder.command.verdict import judged_lines

        has_log = config.print_compare_log and result.is_comparison
        log = operator_lines(result.path) if has_log else iter(())
        print_lines(chain(log, summary_lines(result), judged_lines(result.path)))
        if options.open:
            from msprobe_builder.command.serve import serve

            serve(result.path.parent)


def _export_alone(config: BuildConfig, options: argparse.Namespace, *, quiet: bool) -> int:
    from msprobe_builder.command.summary import export_json, export_lines
    from msprobe_builder.pipeline.merged_export import export_merged

    for key in (
        "fuzzy_match",
        "layer_mapping",
        "match_file",
        "overflow_check",
        "output_name",
        "write_mapping",
        "scheduler",
        "resume",
        "open",
    ):
        if getattr(options, key):
            flag = f"--{key.replace('_', '-')}"
            raise UsageError(f"{flag} has no effect without a database; give one with -o.")
    result = export_merged(config, options.export_merged, workers=options.workers, quiet=quiet)
    if options.json:
        print_lines([export_json(result)])
    elif not options.quiet:
        print_lines(export_lines(result))
    _print_failed(result.failed, quiet=options.quiet)
    return EXIT_INCOMPLETE if result.failed else EXIT_OK


def _print_failed(failed: Sequence[tuple[Place, str]], *, quiet: bool) -> None:
    """What was left out is an error, which is said even when nothing else is."""
    from msprobe_builder.facts.wording import tell
    from msprobe_builder.pipeline.executors.run import left_out

    for place, reason in failed if quiet else ():
        print_error(tell(left_out(place, reason)))
