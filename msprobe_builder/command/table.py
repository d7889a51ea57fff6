"""``msprobe-build table``: the comparison as spreadsheets."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.command.frame import EXIT_INCOMPLETE, EXIT_OK, whole_number
from msprobe_builder.command.output import print_error, print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

_FORMATS = ("xlsx", "csv", "parquet")
_MAPPINGS = ("layer_mapping", "cell_mapping", "api_mapping", "data_mapping")
# What one workbook with all ranks beside each other has no place for, and what it alone has.
_NOT_OF_RANKS = ("format", "stack", "highlight", "own", "rank")
_OF_RANKS = ("call", "index")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the table."""
    parser.description = (
        "Write the comparison of a .vis.db, or of the dumps that a compare.json names, as\n"
        "spreadsheets: one per step and rank, a line per value in order of execution."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path, nargs="?")
    parser.add_argument(
        "-i", "--input-path", "--input_path", metavar="FILE", type=Path, dest="input_path",
        help="compare.json, in place of FILE.vis.db",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output-path", "--output_path", metavar="DIR", type=Path, dest="output_path",
        required=True, help="directory of the tables, created when missing",
    )  # fmt: skip
    parser.add_argument("--format", choices=_FORMATS, help="default xlsx")
    parser.add_argument("-s", "--stack", action="store_true", help="add the call stacks")
    parser.add_argument(
        "-hl", "--highlight", action="store_true",
        help="mark rows red and yellow and say why",
    )  # fmt: skip
    parser.add_argument(
        "-c", "--no-advice", action="store_true", help="write no advice beside the tables"
    )
    parser.add_argument(
        "--own", action="store_true",
        help="add corrected verdict, error, grade, role and order of execution",
    )  # fmt: skip
    parser.add_argument(
        "-f", "--fuzzy-match", "--fuzzy_match", action="store_true", dest="fuzzy_match",
        help="with -i: match calls in their order, whatever their numbers",
    )  # fmt: skip
    parser.add_argument(
        "-lm", "--layer-mapping", "--layer_mapping", metavar="FILE", nargs="?", type=Path,
        const=True, dest="layer_mapping", help="with -i: match modules by their layer",
    )  # fmt: skip
    parser.add_argument(
        "-cm", "--cell-mapping", "--cell_mapping", metavar="FILE", nargs="?", type=Path,
        const=True, dest="cell_mapping",
        help="with -i: match Cell with Module; YAML, cell.Class: module.Class",
    )  # fmt: skip
    parser.add_argument(
        "-am", "--api-mapping", "--api_mapping", metavar="FILE", nargs="?", type=Path,
        const=True, dest="api_mapping",
        help="with -i: match functions of MindSpore and PyTorch; YAML with rules of your own",
    )  # fmt: skip
    parser.add_argument(
        "-dm", "--data-mapping", "--data_mapping", metavar="FILE", type=Path, dest="data_mapping",
        help="with -i: YAML, name of an npu value: name of a bench value",
    )  # fmt: skip
    for what in ("step", "rank"):
        parser.add_argument(
            f"--{what}", metavar="N", type=whole_number(0), action="append", default=[],
            help=f"only this {what}; may be given several times",
        )  # fmt: skip
    parser.add_argument(
        "--ranks", action="store_true",
        help="write one workbook with all ranks beside each other, and where trouble begins",
    )  # fmt: skip
    parser.add_argument(
        "--call", metavar="NAME", action="append", default=[],
        help="with --ranks: only calls that begin with NAME; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--index", metavar="COLUMN", action="append", default=[],
        help="with --ranks: only this column; may be given several times",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Write the tables."""
    if (options.database is None) == (options.input_path is None):
        raise UsageError("Give either FILE.vis.db or -i compare.json.")
    for key in _NOT_OF_RANKS if options.ranks else _OF_RANKS:
        if getattr(options, key):
            tells = "does not go with" if options.ranks else "needs"
            raise UsageError(
                f"--{key} {tells} --ranks, one workbook with all ranks beside each other."
            )
    options.format = options.format or "xlsx"
    if options.database is not None:
        for key in ("fuzzy_match", *_MAPPINGS):
            if getattr(options, key):
                raise UsageError(
                    f"--{key.replace('_', '-')} needs -i: the file is matched already."
                )
        if options.database.suffix == ".json":
            raise UsageError(f"{options.database} is no .vis.db; give a compare.json with -i.")
        _write(options.database, options)
        return EXIT_OK
    # Here, as a file that is there needs none of the builder.
    from msprobe_builder.pipeline.config import read_config
    from msprobe_builder.tables.inputs import built
    from msprobe_builder.tables.single_saves import is_saved_tree

    config = read_config(options.input_path)
    if config.npu_layout is not None:
        raise UsageError("parallel_merge needs a file: build it with msprobe-build -i first.")
    npu, bench = config.npu_path, config.bench_path
    if not isinstance(npu, Path) or not isinstance(bench, Path):
        raise UsageError(f"{options.input_path} lacks 'bench_path'; a comparison needs both sides.")
    if is_saved_tree(npu) and is_saved_tree(bench):
        return _write_saved(npu, bench, options)
    is_complete = True
    with built(npu, bench, _build_options(options)) as comparisons:
        for one in comparisons:
            _write(one.result.path, options, one.prefix)
            is_complete = is_complete and not one.result.failed
            for warning in one.warnings:
                print_error(tell(warning))
    return EXIT_OK if is_complete else EXIT_INCOMPLETE


def _write_saved(npu: Path, bench: Path, options: argparse.Namespace) -> int:
    from msprobe_builder.tables.single_saves import compare_saved_trees

    is_complete = True
    for one in compare_saved_trees(npu, bench, options.output_path, options.format):
        for problem in one.unreadable:
            is_complete = False
            print_error(tell(problem))
        if not options.quiet:
            first = None
            if one.first is not None:
                step, rank, micro_step, name = one.first
                place = {"step": step, "rank": rank, "micro_step": micro_step}
                first = fact("table.saved_first", **place, name=name)
            counts = {"rows": one.rows, "different": one.different}
            print_lines([tell(fact("table.saved", file=str(one.path), **counts, first=first))])
    return EXIT_OK if is_complete else EXIT_INCOMPLETE


def _build_options(options: argparse.Namespace) -> BuildOptions:
    asked = {key: getattr(options, key) for key in _MAPPINGS}
    files = {key: None if value is True else value for key, value in asked.items()}
    return BuildOptions(
        fuzzy_match=options.fuzzy_match,
        layer_mapping=asked["layer_mapping"] is not None,
        layer_mapping_file=files["layer_mapping"],
        cell_mapping=asked["cell_mapping"] is not None,
        cell_mapping_file=files["cell_mapping"],
        api_mapping=asked["api_mapping"] is not None,
        api_mapping_file=files["api_mapping"],
        data_mapping_file=files["data_mapping"],
    )


def _write(database: Path, options: argparse.Namespace, prefix: str = "") -> None:
    from msprobe_builder.tables.export import TableOptions, export_tables
    from msprobe_builder.tables.ranks import export_ranks

    if options.ranks:
        found = export_ranks(
            database, options.output_path, options.call, options.index, options.step
        )
        if not options.quiet:
            print_lines([str(found.path), *map(tell, found.said)])
        return
    table_options = TableOptions(
        form=options.format,
        prefix=prefix,
        stack=options.stack,
        marked=options.highlight,
        own=options.own,
        advise=not options.no_advice,
        steps=tuple(options.step),
        ranks=tuple(options.rank),
    )
    for one in export_tables(database, options.output_path, table_options):
        if not options.quiet:
            suspect = one.advice.suspect
            first = None if suspect is None else fact("table.first", name=suspect)
            counts = {"rows": one.rows, "compared": one.compared, "bad": one.bad}
            print_lines([tell(fact("table.written", file=str(one.path), **counts, first=first))])
