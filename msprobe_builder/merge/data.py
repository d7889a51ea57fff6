"""What becomes of tensor files and checksums when ranks are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msprobe_builder.graph.assembly import Assembly, TensorFile, joined_shape, whole_file
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.merge.blocks import PLAIN, Blocks
from msprobe_builder.merge.rank_tables import parse_shape
from msprobe_builder.merge.share import Share, State
from msprobe_builder.texts import Texts


def single_files(table: ParameterTable, directory: Path | None) -> dict[int, Assembly]:
    """The files of a stage of one rank."""
    return {row: whole_file(directory, name) for row, name in table.file.items()}


def assemblies(
    tables: Sequence[ParameterTable],
    states: Sequence[State],
    directories: Sequence[Path | None],
    texts: Texts,
    blocks: Mapping[int, Blocks],
) -> dict[int, Assembly]:
    """Of which files each merged tensor consists; without those that make no known whole."""
    found = {}
    rows = set.intersection(*(set(table.file) for table in tables))
    for row in sorted(rows):
        source = states[row].reduced if states[row].share is Share.PARTIAL else row
        if source < 0 or source not in rows:
            continue
        own = blocks.get(source, PLAIN)
        assembly = _assembly(tables, source, states[source], directories, texts, own)
        if assembly is not None:
            found[row] = assembly
    return found


def _assembly(
    tables: Sequence[ParameterTable],
    row: int,
    state: State,
    directories: Sequence[Path | None],
    texts: Texts,
    blocks: Blocks,
) -> Assembly | None:
    files = [
        TensorFile(directory, table.file[row])
        for table, directory in zip(tables, directories, strict=True)
    ]
    if state.share is Share.REPLICA:
        return Assembly(tuple(files))
    if state.share is not Share.SHARD or state.cut is None:
        return None
    assembly = Assembly(
        tuple(files),
        state.cut.dimension,
        state.cut.outer,
        blocks.sizes,
        other_blocks=blocks.others,
    )
    shapes = [parse_shape(texts, int(table.shape_id[row])) for table in tables]
    return None if joined_shape(shapes, assembly) is None else assembly


def checksums(
    tables: Sequence[ParameterTable], states: Sequence[State]
) -> tuple[dict[int, str], list[int]]:
    """Checksums on which all ranks agree, and the replicas whose checksums differ.

    A single number is told by its statistics; its checksum may be of another moment.
    """
    agreed: dict[int, str] = {}
    differing = []
    for row, first in tables[0].md5.items():
        if states[row].share is not Share.REPLICA:
            continue
        if all(table.md5.get(row, "").lower() == first.lower() for table in tables[1:]):
            agreed[row] = first
        elif tables[0].numel[row] != 1:
            differing.append(row)
    return agreed, differing
