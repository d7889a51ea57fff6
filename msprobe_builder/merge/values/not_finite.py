"""Which of the merged ranks hold NaN or infinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance


def not_finite(
    tables: Sequence[ParameterTable], whole: ParameterTable, ranks: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """By row the ranks with NaN or infinity; of a mask's -inf alone where the whole has it too."""
    extremes = np.array([table.statistics[:2] for table in tables])
    bits = np.array([[1], [2], [4], [8]])
    nan = np.array([
        (np.isnan(table.statistics) & ((table.missing[None, :] & bits) == 0)).any(axis=0)
        for table in tables
    ])  # fmt: skip
    plus, minus = (extremes == np.inf).any(axis=1), (extremes == -np.inf).any(axis=1)
    bad = nan | plus | (minus & (whole.statistics[:2] == -np.inf).any(axis=0))
    rows = np.flatnonzero(bad.any(axis=0) & tables[0].is_tensor)
    return {
        row: tuple(rank for rank, is_bad in zip(ranks, bad[:, row], strict=True) if is_bad)
        for row in rows.tolist()
    }


def not_finite_in_slices(
    joined: Provenance, said: Sequence[Provenance], firsts: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """The ranks of each part that is NaN or infinite; a part of one rank says nothing itself."""
    found: dict[int, set[int]] = {}
    for row, ranks in joined.not_finite.items():
        found[row] = {rank for rank, one in zip(firsts, said, strict=True) if rank in ranks}
    for one, first in zip(said, firsts, strict=True):
        for row, ranks in one.not_finite.items():
            found[row] = found.get(row, set()) - {first} | set(ranks)
    return {row: tuple(sorted(ranks)) for row, ranks in found.items()}
