"""Which modules of two pipeline stages hold one weight: the embedding tied to the output layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.merge.ranks.part import StageGraph

_STATISTICS = 4  # numbers that tell a tensor
Module = tuple[int, str]  # the stage, and the name there


def tied_modules(stages: Sequence[StageGraph]) -> dict[Module, Module]:
    """Modules whose first parameter one of an earlier stage has, too, with the earliest of those.

    Equal are dtype, shape and all statistics; constants such as fresh norms are not looked at.
    """
    first: dict[bytes, Module] = {}
    found: dict[Module, Module] = {}
    for number, stage in enumerate(stages):
        table = stage.table
        for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
            name, values = stage.tree.parsed[int(table.node[row])], table.statistics[:, row]
            is_first = name.call == 0 and name.direction is Direction.FORWARD
            if not is_first or name.kind is not Kind.MODULE or table.position[row]:
                continue
            if table.missing[row] or values[0] == values[1]:
                continue
            key = _key(table, row)
            holder = first.setdefault(key, (number, name.stem))
            if holder[0] != number and holder[1] != name.stem:  # else several stages run it alike
                found[number, name.stem] = holder
    return found


def used_elsewhere(stages: Sequence[StageGraph]) -> set[Module]:
    """Modules whose first parameter a call of a stage without it takes in for itself."""
    if len(stages) == 1:
        return set()
    held: dict[bytes, Module] = {}
    for number, stage in enumerate(stages):
        table = stage.table
        for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
            values, is_first = table.statistics[:, row], not table.position[row]
            if is_first and not table.missing[row] and values[0] != values[1]:
                stem = stage.tree.parsed[int(table.node[row])].stem
                held.setdefault(_key(table, row), (number, stem))
    norms = np.array([np.frombuffer(key[: 8 * _STATISTICS])[-1] for key in held])
    found = set()
    for number, stage in enumerate(stages):
        table = stage.table
        rows = np.flatnonzero((table.section == Section.INPUT) & table.is_tensor)
        for row in rows[np.isin(table.statistics[-1, rows], norms)].tolist():
            holder = held.get(_key(table, row))
            is_api = stage.tree.parsed[int(table.node[row])].kind is Kind.API
            if holder is not None and holder[0] != number and is_api:
                found.add(holder)
    return found


def _key(table: ParameterTable, row: int) -> bytes:
    """What equal tensors have in common: their numbers, shape and type."""
    kind = f"{table.shape_id[row]} {table.dtype_id[row]}"
    return table.statistics[:, row].tobytes() + bytes(kind, "ascii")
