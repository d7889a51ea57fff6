"""What becomes of tensor files and checksums when ranks are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.assembly import PLAIN, Assembly, TensorFile, joined_shape, whole_file
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.dimensions import PER_EXPERT, Cut
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.merge.values.blocks import Orders


def files_of(side: Side, rows: NDArray[np.int64] | None = None) -> dict[int, Assembly]:
    """The files of a side; ``rows`` are those that are kept, which are numbered anew."""
    if side.provenance is not None:
        files = side.provenance.assemblies
    else:
        directory = side.dump.tensor_dir
        files = {row: whole_file(directory, name) for row, name in side.table.file.items()}
    if rows is None or not files:
        return files
    return {new: files[old] for new, old in enumerate(rows.tolist()) if old in files}


def assemblies(
    tables: Sequence[ParameterTable],
    states: Sequence[State],
    parts: Sequence[Mapping[int, Assembly]],
    texts: Texts,
    orders: Mapping[int, Orders],
) -> dict[int, Assembly]:
    """Of which files each merged tensor consists; without those that make no known whole."""
    found = {}
    rows = set.intersection(*(set(own) for own in parts)) if parts else set()
    for row in sorted(rows):
        source = states[row].reduced if states[row].share is Share.PARTIAL else row
        if source < 0 or source not in rows:
            continue
        own = [_only(one[source]) for one in parts]
        state = states[source]
        if source != row and state.share is Share.SHARD:
            state = _as_scattered(tables, row, source, state, texts)
        assembly = _assembly(tables, source, state, own, texts, orders.get(source, (PLAIN,)))
        if assembly is not None:
            found[row] = assembly
    return found


def _as_scattered(
    tables: Sequence[ParameterTable], row: int, source: int, state: State, texts: Texts
) -> State:
    """How what was scattered is cut, by the shape of the partial result it was scattered from.

    Distributed tensors are put in another order first, so that slices along any dimension lie one
    behind the other.
    """
    whole = parse_shape(texts, int(tables[0].shape_id[row]))
    parts = [parse_shape(texts, int(table.shape_id[source])) for table in tables]
    if state.cut is None or any(len(part) != len(whole) for part in parts):
        return state
    cut = [
        place
        for place, sizes in enumerate(zip(*parts, strict=True))
        if any(size != whole[place] for size in sizes)
    ]
    is_told = len(cut) == 1 and sum(part[cut[0]] for part in parts) == whole[cut[0]]
    return replace(state, cut=Cut(cut[0])) if is_told else state


def is_one_file(assembly: Assembly) -> bool:
    """Whether a single file holds all of a tensor, or each of several."""
    return assembly.dimension is None and isinstance(assembly.parts[0], TensorFile)


def _only(assembly: Assembly) -> TensorFile | Assembly:
    is_file = assembly.dimension is None and len(assembly.parts) == 1
    return assembly.parts[0] if is_file else assembly


def _assembly(
    tables: Sequence[ParameterTable],
    row: int,
    state: State,
    parts: Sequence[TensorFile | Assembly],
    texts: Texts,
    orders: Orders,
) -> Assembly | None:
    if state.share is Share.REPLICA:
        return Assembly(tuple(parts))
    if state.share is not Share.SHARD or state.cut is None or state.cut.outer == PER_EXPERT:
        return None
    shapes = [parse_shape(texts, int(table.shape_id[row])) for table in tables]
    plain = Assembly(tuple(parts), state.cut.dimension, state.cut.outer)
    fitting = [
        one
        for one in (replace(plain, orders=(order,)) for order in orders)
        if joined_shape(shapes, one) is not None
    ]
    return replace(plain, orders=tuple(one.orders[0] for one in fitting)) if fitting else None


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
