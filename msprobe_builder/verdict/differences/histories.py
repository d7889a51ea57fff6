"""Where the history of a tensor ends, which gradients go back along."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part

Int = NDArray[np.int64]

_NEEDS_NONE = 0
_GIVEN = (int(Section.INPUT), int(Section.PARAMETERS))


def is_cut(part: Part, producer: NDArray[Any], row: int) -> bool:
    """Whether something before a tensor that needs no gradient is made of what needs one.

    Where nothing is, the tensor is made of parameters that are frozen and of data: then somebody
    chose what is trained, and no branch was cut off. Also where a flag was not recorded.
    """
    table = part.table
    pending, seen = [row], set()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if table.section[one] == Section.OUTPUT:
            first, last = np.searchsorted(table.node, table.node[one] + np.arange(2)).tolist()
            before = [
                place
                for place in range(first, last)
                if table.is_tensor[place] and table.section[place] in _GIVEN
            ]
        else:
            before = [int(producer[one])] if producer[one] >= 0 else []
        if (table.requires_grad[before] != _NEEDS_NONE).any():
            return True
        pending += before
    return False


def is_cut_off(
    npu: Part, bench: Part, made_by: tuple[NDArray[Any], NDArray[Any]], row: int, other: int
) -> bool:
    """The same of the one of two tensors that needs no gradient; ``made_by`` of both sides."""
    if npu.table.requires_grad[row] == _NEEDS_NONE:
        return is_cut(npu, made_by[0], row)
    return other < 0 or is_cut(bench, made_by[1], other)
