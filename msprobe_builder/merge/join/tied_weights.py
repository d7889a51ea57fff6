"""Which modules of two pipeline stages hold one weight: the embedding tied to the output layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.merge.ranks.part import StageGraph

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
            key = values.tobytes() + bytes(f"{table.shape_id[row]} {table.dtype_id[row]}", "ascii")
            holder = first.setdefault(key, (number, name.stem))
            if holder[0] != number and holder[1] != name.stem:  # else several stages run it alike
                found[number, name.stem] = holder
    return found
