"""Which truth values a call is given where several look alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def operands_apart(part: Part, producer: Int, discrete: Bool) -> Int:
    """The producers once more: of truth values no call is given the same ones twice.

    Their extremes are those of any that cover a part, so that the latest of a shape looks like the
    maker of all of them. What is joined with itself is what it was: the other one is the latest of
    that shape which no call has read yet.
    """
    table, calls = part.table, part.calls
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(table.statistics[:2]).any(axis=0)
    chosen = table.is_tensor & discrete & known & np.isnan(table.statistics[3])
    chosen &= (calls.direction != Direction.BACKWARD)[table.node]
    made = chosen & (table.section == Section.OUTPUT) & calls.is_api[table.node]
    given = chosen & (table.section == Section.INPUT) & (producer >= 0)
    result: NDArray[Any] = producer.copy()
    unread: dict[tuple[float, ...], list[int]] = {}
    taken: tuple[int, set[int]] = (-1, set())
    for row in np.flatnonzero(made | given).tolist():
        look = (int(table.shape_id[row]), *table.statistics[:2, row].tolist())
        waiting = unread.setdefault(look, [])
        if made[row]:
            waiting.append(row)
            continue
        node, maker = int(table.node[row]), int(producer[row])
        if taken[0] != node:
            taken = node, set()
        if maker in taken[1] and waiting:
            maker = result[row] = waiting[-1]
        taken[1].add(maker)
        if maker in waiting:
            waiting.remove(maker)
    return np.asarray(result)
