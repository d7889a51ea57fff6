"""Where the history of a tensor ends, which gradients go back along."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import has_own_gradient
from msprobe_builder.graph.part import Part, inputs_of, rows_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

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
            before = [
                place
                for place in rows_of(table, int(table.node[one]))
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


def without_history(part: Part, producer: Int) -> Bool:
    """Nodes without a history of gradients to compare.

    What a side computes again has none the first time, nor has what a function with a derivative of
    its own calls.
    """
    return np.asarray(_recomputed(part) | _inside_functions(part, producer))


def _recomputed(part: Part) -> Bool:
    """Nodes inside of modules that are computed again; all where nobody knows which these are."""
    tree, calls = part.tree, part.calls
    result = np.zeros(len(tree), dtype=bool)
    again = np.flatnonzero(tree.is_recompute)
    if not len(again):
        return result
    stems = np.unique(calls.stem[again[calls.is_module[again]]])
    for node in np.flatnonzero(calls.is_module & np.isin(calls.stem, stems)).tolist():
        result[node : int(tree.subtree_end[node]) + 1] = True
    if not result[again].all():
        result[:] = True
    return result


def _inside_functions(part: Part, producer: Int) -> Bool:
    """Forward calls that functions with a derivative of their own make, and that need no gradient.

    They stand beside the function, before it and behind what made all that it is given.
    """
    tree, calls, table = part.tree, part.calls, part.table
    result = np.zeros(len(tree), dtype=bool)
    is_output = table.is_tensor & (table.section == Section.OUTPUT)
    learns = np.zeros(len(tree), dtype=bool)
    learns[table.node[is_output & (table.requires_grad == 1)]] = True
    own = calls.is_forward_call & calls.apis(has_own_gradient) & learns
    beside = calls.is_forward_call & calls.is_api & ~learns
    for node in np.flatnonzero(own).tolist():
        made = producer[inputs_of(table, node)]
        made = table.node[made[made >= 0]]
        one = node - 1
        while len(made) and one > made.max() and beside[one]:
            result[one] = tree.parent[one] == tree.parent[node]
            one -= 1
    return result
