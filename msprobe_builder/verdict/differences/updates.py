"""What an optimizer makes of rounding where it divides by the size of a gradient.

Adam and its like move each element by a quotient, ``value · m / d``: a mean of its gradients
divided by their size. Where a gradient has cancelled, as that of the bias of attention's keys
does, both are rounding, and the element moves by a whole step in a direction that nobody knows.
Statistics do not tell which elements these are; the smallest divisor tells how bad the worst one
is. An error e of what is given moves an element by e · max |m| / min |d|, at most by a step each
way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions

Int = NDArray[np.int64]


class Update(NamedTuple):
    """Of an output: how far an error moves it, as a fraction of its size, and how far at most."""

    stretch: float
    limit: float


def updates(part: Part, texts: Texts) -> dict[int, Update]:
    """By row of the table what updates put out that divide."""
    table = part.table
    found: dict[int, Update] = {}
    for node in np.flatnonzero(
        part.calls.are(questions.one_of("addcdiv", "foreach_addcdiv"))
    ).tolist():
        first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
        rows = np.arange(first, last)
        tensors = rows[table.is_tensor[rows]]
        given = tensors[table.section[tensors] == Section.INPUT]
        put_out = tensors[table.section[tensors] == Section.OUTPUT]
        count = len(put_out)
        values = [_number(texts, int(table.value_id[row])) for row in rows if row not in tensors]
        value = max((abs(one) for one in values if one is not None), default=1.0)
        if not count or len(given) != 3 * count:
            continue
        extremes = table.statistics[:2, given].reshape(2, 3, count)
        for place, row in enumerate(put_out.tolist()):
            most, least = extremes[:, 2, place]
            size, dividend = np.abs(extremes[:, :2, place]).max(axis=0)
            if not (least > 0 and size > 0 and np.isfinite([most, size, dividend]).all()):
                continue
            step = value * max(1.0, dividend / most) / size
            found[row] = Update(float(value * dividend / least / size), float(2.0 * step))
    return found


def updates_of_both(
    npu: dict[int, Update], bench: dict[int, Update], bench_of: Int
) -> dict[int, Update]:
    """By npu row the larger of both sides: no gradient on one may be rounding on the other."""
    found = {}
    for row, own in npu.items():
        other = bench.get(int(bench_of[row]), own)
        found[row] = Update(max(own.stretch, other.stretch), max(own.limit, other.limit))
    return found


def _number(texts: Texts, value: int) -> float | None:
    try:
        return float(texts.values[value]) if value >= 0 else None
    except ValueError:
        return None
