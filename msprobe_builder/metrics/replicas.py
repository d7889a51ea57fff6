"""Whether the ranks that should hold a tensor alike do so, element by element."""

from __future__ import annotations

from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.elementwise import PERFECT, tensor_errors
from msprobe_builder.metrics.joined import Readable, open_replicas
from msprobe_builder.metrics.tensor_file import TensorFileError, pieces

DISAGREE = "Tensors that several ranks should hold alike differ in their elements."
# Replicas are computed by the same code from the same numbers; this leaves room for atomics.
_TOLERANCE = 1e-4


def is_disagreed(side: Side, row: int) -> bool:
    """Whether a rank's copy is away from the first one by more than a share of its norm.

    Files that cannot be read are no disagreement: the comparison tells of them.
    """
    assembly = None if side.assemblies is None else side.assemblies.get(row)
    if assembly is None:
        return False
    try:
        copies = open_replicas(assembly)
        norm = float(side.table.statistics[3, row])
        return any(_is_away(copy, copies[0], norm) for copy in copies[1:])
    except (TensorFileError, RuntimeError, MemoryError, OSError):
        return False


def _is_away(copy: Readable, first: Readable, norm: float) -> bool:
    if copy.shape != first.shape:
        return True
    errors = tensor_errors((copy.piece(index), first.piece(index)) for index in pieces(copy.shape))
    return errors != PERFECT and not errors.euclidean_distance <= _TOLERANCE * norm
