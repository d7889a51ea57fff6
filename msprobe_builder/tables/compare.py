"""The comparison as Python calls it, under the documented names, with tables for a notebook."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.base.text_files import read_text_file
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.pipeline.build import build
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.export import TableOptions, export_tables, wanted_places
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.rows import Cell
from msprobe_builder.tables.write import library, typed

if TYPE_CHECKING:
    import pandas as pd

_ITEM = re.compile(r"(?P<call>.+?)\.(?:input|output|kwargs|parameters)\.", re.S)


def compare(
    input_param: Mapping[str, Any],
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    data_mapping: Mapping[str, str] | str | Path | None = None,
    suffix: str = "",
    layer_mapping: str | Path | bool | None = None,
    own_columns: bool = False,
) -> pd.DataFrame:
    """Compare two ranks, write the workbook and the advice, and return the table.

    ``input_param`` names ``npu_json_path`` and ``bench_json_path``, each a dump.json or its
    directory; ``stack_json_path`` and ``is_print_compare_log`` are taken and not needed. Raises
    BuildError with one sentence naming what is wrong.
    """
    npu, bench = (_path_of(input_param, key) for key in ("npu_json_path", "bench_json_path"))
    options = TableOptions(
        stack=stack_mode, advise=auto_analyze, marked=highlight, suffix=suffix, own=own_columns
    )
    with built(npu, bench, _build_options(fuzzy_match, layer_mapping), data_mapping) as database:
        export_tables(database, Path(output_path), options)
        return read_table(database, stack=stack_mode, own_columns=own_columns)


def compare_distributed(
    npu_dump_dir: str | Path,
    bench_dump_dir: str | Path,
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    data_mapping: Mapping[str, str] | str | Path | None = None,
    layer_mapping: str | Path | bool | None = None,
    own_columns: bool = False,
) -> pd.DataFrame:
    """Compare directories of ranks, or of steps of ranks; a workbook each, one table returned.

    Ranks are paired by their numbers. BuildError as in :func:`compare`.
    """
    options = TableOptions(stack=stack_mode, advise=auto_analyze, marked=highlight, own=own_columns)
    build_options = _build_options(fuzzy_match, layer_mapping)
    paths = Path(npu_dump_dir), Path(bench_dump_dir)
    with built(*paths, build_options, data_mapping) as database:
        export_tables(database, Path(output_path), options)
        return read_table(database, stack=stack_mode, own_columns=own_columns)


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
    with opened(Path(database)) as connection:
        task = read_task(connection)
        columns = columns_of(task, stack=stack, own=own_columns)
        cells: list[list[Cell]] = [[] for _ in range(2 + len(columns.names))]
        for place in wanted_places(connection, steps, ranks):
            for row in read_rows(connection, place, task, columns, marked=False):
                for column, cell in zip(cells, (place.step, place.rank, *row.cells), strict=True):
                    column.append(cell)
    content: dict[str, Any] = {"step": cells[0], "rank": cells[1]}
    for name, column in zip(columns.names, cells[2:], strict=True):
        content[name] = typed(name, column)
    table: pd.DataFrame = pandas.DataFrame(content)
    return table


@contextmanager
def built(
    npu: Path,
    bench: Path | None,
    options: BuildOptions,
    data_mapping: Mapping[str, str] | str | Path | None = None,
) -> Iterator[Path]:
    """A database of the comparison that exists within the block."""
    with tempfile.TemporaryDirectory(prefix="msprobe_table_") as folder:
        if data_mapping:
            options = replace(options, match_file=_match_file(data_mapping, Path(folder)))
        paths = [None if path is None else dump_directory(path) for path in (npu, bench)]
        assert paths[0] is not None
        config = BuildConfig(paths[0], paths[1], options=options)
        yield build(config, Path(folder), name="table.vis.db").path


def dump_directory(path: Path) -> Path:
    """The directory of a dump that is given by its dump.json."""
    return path.parent if path.name == "dump.json" else path


def _path_of(input_param: Mapping[str, Any], key: str) -> Path:
    value = input_param.get(key)
    if not isinstance(value, str | Path):
        raise UsageError(f"input_param lacks {key!r}; give the path of a dump.json.")
    return Path(value)


def _build_options(fuzzy_match: bool, layer_mapping: str | Path | bool | None) -> BuildOptions:
    has_rules = isinstance(layer_mapping, str | Path)
    return BuildOptions(
        fuzzy_match=fuzzy_match,
        layer_mapping=bool(layer_mapping),
        layer_mapping_file=Path(layer_mapping) if has_rules else None,  # type: ignore[arg-type]
    )


def _match_file(mapping: Mapping[str, str] | str | Path, folder: Path) -> Path:
    """Matches of calls from a mapping of their values, or a YAML file of it."""
    if not isinstance(mapping, Mapping):
        path = Path(mapping)
        try:
            found: object = yaml.safe_load(read_text_file(path, "give the path of a data mapping"))
        except yaml.YAMLError as error:
            raise UsageError(f"{path} is not valid YAML; correct it.") from error
        if not isinstance(found, Mapping):
            raise UsageError(f"{path} must map names of values: NPU name: bench name.")
        mapping = found
    pairs: dict[str, str] = {}
    for npu, bench in mapping.items():
        if any(type(name) is not str for name in (npu, bench)):
            raise UsageError(f"The data mapping must map names to names, not {npu!r}: {bench!r}.")
        pairs.setdefault(_call_of(npu), _call_of(bench))
    content = {
        "version": 1,
        "matches": [{"npu": npu, "bench": bench} for npu, bench in pairs.items()],
    }
    path = folder / "data_mapping.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _call_of(item: str) -> str:
    """The call that a value belongs to: ``Torch.add.0.forward.input.0`` → ``….forward``."""
    found = _ITEM.match(item)
    return found["call"] if found else item
