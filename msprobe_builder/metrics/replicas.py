"""Whether the ranks that should hold a tensor alike do so, element by element."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.assembly import Assembly, TensorFile
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.elementwise import PERFECT, tensor_errors
from msprobe_builder.metrics.joined import Readable, open_replicas
from msprobe_builder.metrics.tensor_file import TensorFileError, pieces

DISAGREE = fact("note.replicas_disagree")
# Replicas are computed by the same code from the same numbers; this leaves room for atomics.
_TOLERANCE = 1e-4


class Copy(NamedTuple):
    """A rank's copy that is away from the first rank's by ``difference``, a share of its norm.

    ``statistics`` are its own max, min, mean and norm.
    """

    rank: int
    first_rank: int
    statistics: tuple[float, float, float, float]
    difference: float


def copies_apart(side: Side, row: int) -> list[Copy]:
    """The copies of a tensor that differ from the first one by more than a share of its norm.

    Files that cannot be read are no disagreement: the comparison tells of them.
    """
    assembly = None if side.provenance is None else side.provenance.assemblies.get(row)
    if assembly is None:
        return []
    try:
        copies = open_replicas(assembly)
        if not copies:
            return []
        norm = float(side.table.statistics[3, row])
        found = [_difference(copy, copies[0], norm) for copy in copies[1:]]
        return [
            Copy(rank_of(part), rank_of(assembly.parts[0]), _statistics(copy), difference)
            for part, copy, difference in zip(assembly.parts[1:], copies[1:], found, strict=True)
            if difference > _TOLERANCE
        ]
    except (TensorFileError, RuntimeError, MemoryError, OSError):
        return []


def rank_of(part: TensorFile | Assembly) -> int:
    """The rank whose directory holds a file, or its first file; 0 where that has no number."""
    while isinstance(part, Assembly):
        part = part.parts[0]
    name = "" if part.directory is None else part.directory.parent.name
    number = re.fullmatch(r"rank(\d+)", name)
    return int(number[1]) if number else 0


def _difference(copy: Readable, first: Readable, norm: float) -> float:
    """How far a copy is from the first one, in norms of the tensor; 0…1."""
    if copy.shape != first.shape:
        return 1.0
    errors = tensor_errors((copy.piece(index), first.piece(index)) for index in pieces(copy.shape))
    if errors == PERFECT:
        return 0.0
    if errors.euclidean_distance <= _TOLERANCE * norm:
        return 0.0
    return float(np.fmin(errors.euclidean_distance / norm, 1.0)) if norm else 1.0


def _statistics(tensor: Readable) -> tuple[float, float, float, float]:
    return statistics_of(np.concatenate([tensor.piece(index) for index in pieces(tensor.shape)]))


def statistics_of(elements: NDArray[Any]) -> tuple[float, float, float, float]:
    """Max, min, mean and norm of elements in one dimension; NaN of none."""
    content = np.asarray(elements, dtype=np.float64)
    if not len(content):
        return np.nan, np.nan, np.nan, np.nan
    norm = float(np.sqrt(np.square(content).sum()))
    return float(content.max()), float(content.min()), float(content.mean()), norm
