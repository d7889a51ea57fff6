"""Tensors of merged ranks, put together from the files of their parts.

The parts stay in their mapped files; what a comparison asks for is gathered piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.assembly import Assembly, TensorFile, joined_shape
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.tensor_file import (
    Index,
    StoredTensor,
    TensorFileError,
    open_tensor,
    pieces,
)


@dataclass(frozen=True)
class JoinedTensor:
    """Tiles one after the other along one dimension."""

    shape: tuple[int, ...]
    tiles: tuple[StoredTensor, ...]
    dimension: int

    def piece(self, index: Index, _space: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Elements in one dimension, as of a tensor in a single file."""
        return self._part(index).reshape(-1)

    def _part(self, index: Index) -> NDArray[Any]:
        place = self.dimension
        if place >= len(index) or index[place] is ...:
            axis = place - sum(isinstance(one, int) for one in index)
            return np.concatenate([tile.part(index) for tile in self.tiles], axis=axis)
        wanted = index[place]
        starts = accumulate((tile.shape[place] for tile in self.tiles), initial=0)
        found = []
        for start, tile in zip(starts, self.tiles, strict=False):
            size = tile.shape[place]
            if isinstance(wanted, int):
                if start <= wanted < start + size:
                    return tile.part((*index[:place], wanted - start, *index[place + 1 :]))
                continue
            assert isinstance(wanted, slice)
            first, last = max(wanted.start - start, 0), min(wanted.stop - start, size)
            if first < last:
                own = slice(first, last)
                found.append(tile.part((*index[:place], own, *index[place + 1 :])))
        return np.concatenate(found, axis=0)  # the slice is the first dimension that is left


Readable = StoredTensor | JoinedTensor


def file_names(side: Side, row: int) -> list[str]:
    """The files that hold a row's tensor or its parts."""
    if side.provenance is None:
        return [side.table.file[row]] if row in side.table.file else []
    assembly = side.provenance.assemblies.get(row)
    return [] if assembly is None else _names(assembly)


def _names(assembly: Assembly) -> list[str]:
    found: list[str] = []
    for part in assembly.parts:
        found += [part.name] if isinstance(part, TensorFile) else _names(part)
    return found


def open_row(side: Side, row: int) -> list[Readable]:
    """The tensor of a row of a side's table; several where the order of elements is not known.

    TensorFileError says why there is none.
    """
    if side.provenance is None:
        return [open_tensor(side.dump.tensor_dir, side.table.file.get(row))]
    assembly = side.provenance.assemblies.get(row)
    if assembly is None:
        reason = side.provenance.unknown.get(row)
        if reason is None:
            raise TensorFileError("unsaved", fact("file.not_named"))
        raise TensorFileError("unmerged", reason)
    return [open_assembly(one) for one in in_each_order(assembly)]


def in_each_order(assembly: Assembly) -> list[Assembly]:
    """The same parts in each order that they may have, their own parts as well."""
    if assembly.dimension is None:
        first = assembly.parts[0]
        return [assembly] if isinstance(first, TensorFile) else in_each_order(first)
    inner: list[list[TensorFile | Assembly]] = [
        [part] if isinstance(part, TensorFile) else [*in_each_order(part)]
        for part in assembly.parts
    ]
    return [
        replace(assembly, parts=parts, orders=(order,))
        for order in assembly.orders
        for parts in zip(*inner, strict=False)
    ]


def open_assembly(assembly: Assembly) -> Readable:
    """One tensor of its parts, in the first order that they may have."""
    if assembly.dimension is None:
        return open_part(assembly.parts[0])
    return join([open_part(part) for part in assembly.parts], assembly)


def whole(tensor: Readable) -> Any:
    """All elements of a tensor in one array or torch tensor."""
    if isinstance(tensor, StoredTensor):
        return tensor.content
    return _concatenated([tile.content for tile in tensor.tiles], tensor.dimension)


def open_replicas(assembly: Assembly) -> list[Readable]:
    """Every part of a tensor that all ranks hold; nothing when it was joined or is the only one."""
    if assembly.dimension is not None or len(assembly.parts) < 2:
        return []
    return [open_part(part) for part in assembly.parts]


def open_part(part: TensorFile | Assembly) -> Readable:
    """One part of a tensor, made of its own parts if it has any."""
    return open_tensor(*part) if isinstance(part, TensorFile) else open_assembly(part)


def join(parts: Sequence[Readable], assembly: Assembly) -> Readable:
    """The whole of its parts; TensorFileError when they do not fit together."""
    shape = joined_shape([part.shape for part in parts], assembly)
    if shape is None or assembly.dimension is None:
        shown = ", ".join(str(list(part.shape)) for part in parts)
        raise TensorFileError("shape", fact("file.parts", parts=shown))
    axis, outer = assembly.dimension, assembly.outer
    contents = [_content(part) for part in parts]
    if outer > 1:
        contents = [
            one.reshape(*one.shape[:axis], outer, -1, *one.shape[axis + 1 :]) for one in contents
        ]
        axis += 1
    tiles = list(_tiles(contents, axis, assembly))
    if outer == 1:
        return JoinedTensor(
            tuple(shape), tuple(StoredTensor(tuple(one.shape), one) for one in tiles), axis
        )
    # What lies between the parts is cut as well, so no run of tiles has the order of the whole.
    return StoredTensor(tuple(shape), _concatenated(tiles, axis).reshape(shape))


def _tiles(contents: Sequence[Any], axis: int, assembly: Assembly) -> Iterable[Any]:
    """The blocks of all parts in the order of the whole, as views."""
    order = assembly.orders[0]
    bounds = [0, *accumulate(order.blocks)]
    before = (slice(None),) * axis
    for part, block in order.sequence(len(contents)):
        content = contents[part]
        unit = content.shape[axis] // bounds[-1]
        yield content[(*before, slice(bounds[block] * unit, bounds[block + 1] * unit))]


def _concatenated(tiles: Sequence[Any], axis: int) -> Any:
    if all(isinstance(tile, np.ndarray) for tile in tiles):
        return np.concatenate(tiles, axis=axis)
    import torch

    return torch.cat([torch.as_tensor(tile) for tile in tiles], dim=axis)


def _content(part: Readable) -> Any:
    """A part as one array that can be cut further."""
    if isinstance(part, StoredTensor):
        return part.content
    whole = np.concatenate([part.piece(index) for index in pieces(part.shape)])
    return whole.reshape(part.shape)
