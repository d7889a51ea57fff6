"""The comparison as Python calls it, under the documented names, with tables for a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.database.whole import opened_whole
from msprobe_builder.facts.wording import tell
from msprobe_builder.tables.columns import NUMERIC, columns_of
from msprobe_builder.tables.export import TableOptions, export_tables, wanted_places
from msprobe_builder.tables.inputs import DataMapping, built, mapping_file
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.rows import Cell
from msprobe_builder.tables.write import library, typed

if TYPE_CHECKING:
    import pandas as pd

# A mapping file; True is the mapping without rules of one's own.
MappingFile = str | Path | bool | None


def compare(
    input_param: Mapping[str, Any],
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    data_mapping: DataMapping | None = None,
    suffix: str = "",
    layer_mapping: MappingFile = None,
    cell_mapping: MappingFile = None,
    api_mapping: MappingFile = None,
    own_columns: bool = False,
) -> pd.DataFrame:
    """Compare two ranks, write the workbook and the advice, and return the table.

    ``input_param`` names ``npu_json_path`` and ``bench_json_path`` (``npu_path`` and
    ``bench_path`` mean the same), each a dump.json, a debug.json or a directory of them;
    ``stack_json_path`` and ``is_print_compare_log`` are taken and not needed. Raises BuildError
    with one sentence naming what is wrong.
    """
    npu, bench = (_path_of(input_param, side) for side in ("npu", "bench"))
    table = TableOptions(
        stack=stack_mode, advise=auto_analyze, marked=highlight, suffix=suffix, own=own_columns
    )
    with mapping_file(data_mapping) as file:
        options = _build_options(fuzzy_match, layer_mapping, cell_mapping, api_mapping, file)
        return _compared(npu, bench, Path(output_path), options, table)


def compare_distributed(
    npu_dump_dir: str | Path,
    bench_dump_dir: str | Path,
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    data_mapping: DataMapping | None = None,
    layer_mapping: MappingFile = None,
    cell_mapping: MappingFile = None,
    api_mapping: MappingFile = None,
    own_columns: bool = False,
) -> pd.DataFrame:
    """Compare directories of ranks, or of steps of ranks; a workbook each, one table returned.

    Ranks are paired by their numbers. BuildError as in :func:`compare`; ranks that could not be
    read are left out with a warning.
    """
    table = TableOptions(stack=stack_mode, advise=auto_analyze, marked=highlight, own=own_columns)
    npu = _existing(Path(npu_dump_dir), "npu_dump_dir")
    bench = _existing(Path(bench_dump_dir), "bench_dump_dir")
    with mapping_file(data_mapping) as file:
        options = _build_options(fuzzy_match, layer_mapping, cell_mapping, api_mapping, file)
        return _compared(npu, bench, Path(output_path), options, table)


def _compared(
    npu: Path, bench: Path, output: Path, options: BuildOptions, table: TableOptions
) -> pd.DataFrame:
    with built(npu, bench, options) as comparisons:
        tables = []
        for one in comparisons:
            for warning in one.warnings:
                warnings.warn(tell(warning), stacklevel=3)
            export_tables(one.result.path, output, replace(table, prefix=one.prefix))
            tables.append(read_table(one.result.path, stack=table.stack, own_columns=table.own))
    return tables[0] if len(tables) == 1 else library("pandas").concat(tables, ignore_index=True)


def read_table(
    database: str | Path,
    step: int | Sequence[int] = (),
    rank: int | Sequence[int] = (),
    *,
    stack: bool = False,
    own_columns: bool = False,
) -> pd.DataFrame:
    """The table of a .vis.db, with its step and rank in the first two columns.

    Columns of numbers are float64: percent as such, NaN where there is no number.
    """
    pandas = library("pandas")
    steps, ranks = ((one,) if isinstance(one, int) else tuple(one) for one in (step, rank))
    with opened_whole(Path(database)) as connection:
        task = read_task(connection)
        columns = columns_of(task, stack=stack, own=own_columns)
        cells: list[list[Cell]] = [[] for _ in range(2 + len(columns.names))]
        for place in wanted_places(connection, steps, ranks):
            for row in read_rows(connection, place, task, columns, marked=False):
                for column, cell in zip(cells, (place.step, place.rank, *row.cells), strict=True):
                    column.append(cell)
    content: dict[str, Any] = {"step": cells[0], "rank": cells[1]}
    for name, column in zip(columns.names, cells[2:], strict=True):
        kind = "float64" if name in NUMERIC else None  # also where no row has a number
        content[name] = pandas.Series(typed(name, column), dtype=kind)
    table: pd.DataFrame = pandas.DataFrame(content)
    return table


def _path_of(input_param: Mapping[str, Any], side: str) -> Path:
    for key in (f"{side}_json_path", f"{side}_path"):
        value = input_param.get(key)
        if isinstance(value, str | Path) and value:
            return _existing(_of_one_rank(Path(value), key), key)
    raise UsageError(f"input_param lacks '{side}_json_path'; give the path of a dump.json.")


def _of_one_rank(path: Path, argument: str) -> Path:
    """``dump/dump.json``, as the documents name it, of a dump of one step and one rank."""
    if path.name != "dump.json" or path.exists():
        return path
    found = sorted(path.parent.glob("step*/rank*/dump.json"))
    if len(found) > 1:
        raise BuildError(
            f"{argument} {path} does not exist; name one of the {len(found)} below it, "
            f"such as {found[0]}."
        )
    return found[0] if found else path


def _existing(path: Path, argument: str) -> Path:
    if not path.exists():
        raise BuildError(f"{argument} {path} does not exist; correct the path.")
    return path


def _build_options(
    fuzzy_match: bool,
    layer_mapping: MappingFile,
    cell_mapping: MappingFile,
    api_mapping: MappingFile,
    data_mapping: Path | None,
) -> BuildOptions:
    return BuildOptions(
        fuzzy_match=fuzzy_match,
        layer_mapping=bool(layer_mapping),
        layer_mapping_file=_file(layer_mapping),
        cell_mapping=bool(cell_mapping),
        cell_mapping_file=_file(cell_mapping),
        api_mapping=bool(api_mapping),
        api_mapping_file=_file(api_mapping),
        data_mapping_file=data_mapping,
    )


def _file(mapping: MappingFile) -> Path | None:
    return Path(mapping) if isinstance(mapping, str | Path) and mapping else None
