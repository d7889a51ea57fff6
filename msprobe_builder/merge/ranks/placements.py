"""Distributed tensors of PyTorch: each record says itself what the tensor is of the whole.

The shape is that of the whole and the statistics are of the rank's own part, so the shape of the
part is worked out first: parts are as large as ``torch.chunk`` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.parameter_table import ParameterTable

_CUT = re.compile(r"S(?:hard)?\((?:dim=)?(\d+)\)")


def placements(table: ParameterTable, texts: Texts) -> dict[int, str]:
    """The placements of each distributed tensor, such as ``R``, ``S(0)`` or ``P(sum)``, by row."""
    kinds = {number for number, text in enumerate(texts.values) if text.endswith("DTensor")}
    if not kinds:
        return {}
    found = {}
    for row, (kind, value) in enumerate(
        zip(table.type_id.tolist(), table.value_id.tolist(), strict=True)
    ):
        if kind in kinds and value >= 0:
            found[row] = texts.values[value]
    return found


def cut_dimension(placement: str) -> int | None:
    """The dimension along which a tensor is cut; None of one that is not, or along several."""
    others = [one for one in placement.split(", ") if one != "R"]
    cut = _CUT.fullmatch(others[0]) if len(others) == 1 else None
    return int(cut[1]) if cut else None


def is_whole(placement: str) -> bool:
    """Whether every rank holds all of a tensor."""
    return set(placement.split(", ")) == {"R"}


def with_local_shapes(tables: Sequence[ParameterTable], texts: Texts) -> list[ParameterTable]:
    """The tables of all ranks with the shapes of the parts in place of those of the whole."""
    placed = placements(tables[0], texts)
    cut = {row: place for row, one in placed.items() if (place := cut_dimension(one)) is not None}
    if not cut:
        return list(tables)
    result = []
    for rank, table in enumerate(tables):
        shape_id, numel = table.shape_id.copy(), table.numel.copy()
        for row, dimension in cut.items():
            shape = parse_shape(texts, int(shape_id[row]))
            if dimension < len(shape):
                size = -(-shape[dimension] // len(tables))
                begin = min(rank * size, shape[dimension])
                shape[dimension] = min(size, shape[dimension] - begin)
                shape_id[row], numel[row] = texts.id(str(shape)), prod(shape)
        result.append(replace(table, shape_id=shape_id, numel=numel))
    return result
