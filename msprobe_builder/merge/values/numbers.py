"""Single numbers that each rank makes of its own parameters: norms of gradients and their sums.

What a rank adds up behind its last backward pass depends on which parameters it has, so the numbers
of an unsplit run are others. Whether a number is right can still be told on each rank alone: the
statistics of what a call took in say what it has to put out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import NumberOf, Numbers, Shares
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.questions import any_of, one_of
from msprobe_builder.operators.table import operator_of

Int = NDArray[np.int64]

# Of a norm over all elements with the usual exponent, and of a sum over all elements.
_NORM_ARGUMENTS = frozenset({"None", "2", "2.0", "fro", "False"})
_SUM_ARGUMENTS = frozenset({"None"})
_takes_norm = one_of("norm", "vector_norm")
_lists = one_of("stack", "cat", "tensor")
_is_known = any_of(_takes_norm, _lists, one_of("pow", "sqrt", "sum", "all_reduce"))
_MEAN, _NORM = 2, 3
_SAME = 1e-6  # of one number that was handed on


@dataclass(frozen=True)
class _Number:
    """What one rank has, and what follows from what its call took in."""

    own: float
    expected: float
    of: NumberOf
    is_reduced: bool = False


def numbers_of(
    sides: Sequence[Side], rows: Sequence[Sequence[int] | Int], ranks: Sequence[int], texts: Texts
) -> dict[int, Numbers]:
    """By row what each rank has, and what follows from that rank's inputs.

    Only of calls behind the last backward pass that make single numbers of tensors, or put such
    numbers together. ``rows`` are those of each rank that all ranks have. Where a rank takes a norm
    that another lacks, or did not record it, nothing is said of what they reduce.
    """
    found = [_numbers(side.tree, side.table, texts) for side in sides]
    is_complete = not any(_norms_unrecorded(side.tree, side.table) for side in sides) and all(
        one.of is not NumberOf.TENSOR or row in shared
        for own, shared in zip(found, ({*map(int, there)} for there in rows), strict=True)
        for row, one in own.items()
    )
    result = {}
    for place, row in enumerate(rows[0]):
        if int(row) not in found[0]:
            continue
        several = [own.get(int(there[place])) for own, there in zip(found, rows, strict=True)]
        known = [one for one in several if one is not None]
        if len(known) == len(several) and len({one.of for one in known}) == 1:
            result[place] = Numbers(
                tuple(ranks),
                tuple(one.own for one in known),
                tuple(one.expected for one in known),
                known[0].of,
                is_complete and all(one.is_reduced for one in known),
            )
    return result


def _numbers(tree: Tree, table: ParameterTable, texts: Texts) -> dict[int, _Number]:
    """The numbers of one rank by output row."""
    found: dict[int, _Number] = {}
    lists: set[float] = set()
    for node in _final_calls(tree):
        operator = operator_of(tree.parsed[node].stem)
        if not _is_known(operator):
            continue
        first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
        tensors = [row for row in range(first, last) if table.is_tensor[row]]
        given = [row for row in tensors if table.section[row] == Section.INPUT]
        put_out = [row for row in tensors if table.section[row] == Section.OUTPUT]
        if len(put_out) != 1 or any(_is_distributed(table, row, texts) for row in tensors):
            continue  # of a distributed tensor the numbers are of one part
        own = abs(float(table.statistics[_NORM, put_out[0]]))
        expected = _expected(operator, table, _arguments(table, first, last, texts), given)
        if expected is None or not isfinite(expected) or not isfinite(own):
            continue
        of = NumberOf.NUMBERS
        if not given:
            of = NumberOf.VALUE
        elif _takes_norm(operator) and table.numel[given[0]] > 1 and expected not in lists:
            of = NumberOf.TENSOR
        if operator.name == "all_reduce" or of is NumberOf.VALUE:
            before = _made_before(found, expected)
            if before is None:
                continue  # a number of something else
            if of is not NumberOf.VALUE:
                of = NumberOf.RANKS
                found[before] = replace(found[before], is_reduced=True)
        found[put_out[0]] = _Number(own, expected, of)
        if _lists(operator) and given:
            lists.add(own)
    return found


def _norms_unrecorded(tree: Tree, table: ParameterTable) -> bool:
    """Whether a norm that is taken behind the last backward pass was not recorded."""
    norms = [
        node for node in _final_calls(tree) if _takes_norm(operator_of(tree.parsed[node].stem))
    ]
    return bool((table.is_tensor & (table.missing > 0))[np.isin(table.node, norms)].any())


def shares_of_norms(
    numbers: Mapping[int, Numbers],
    tables: Sequence[ParameterTable],
    states: Sequence[State],
    ranks: Sequence[int],
) -> dict[int, Shares]:
    """The parts of gradients that norms were taken of, by the row that the call took in."""
    nodes = [tables[0].node[row] for row, one in numbers.items() if one.of is NumberOf.TENSOR]
    rows = np.flatnonzero(np.isin(tables[0].node, nodes) & tables[0].is_tensor)
    return {
        row: Shares(
            tuple(ranks),
            np.array([one.statistics[:, row] for one in tables]),
            np.array([one.numel[row] for one in tables]),
        )
        for row in rows.tolist()
        if states[row].share is Share.SHARD
    }


def _arguments(table: ParameterTable, first: int, last: int, texts: Texts) -> list[str]:
    """The values of a call's arguments that are no tensors."""
    return [
        texts.values[int(table.value_id[row])] if table.value_id[row] >= 0 else "None"
        for row in range(first, last)
        if not table.is_tensor[row] and table.section[row] == Section.INPUT
    ]


def _is_distributed(table: ParameterTable, row: int, texts: Texts) -> bool:
    kind = int(table.type_id[row])
    return kind >= 0 and texts.values[kind].endswith("DTensor")


def _made_before(found: Mapping[int, _Number], value: float) -> int | None:
    """The latest row that has this number."""
    for row in sorted(found, reverse=True):
        if isclose(found[row].own, value, rel_tol=_SAME):
            return row
    return None


def _final_calls(tree: Tree) -> Iterator[int]:
    """Calls outside of modules behind the last backward pass."""
    last = max(
        (
            int(tree.subtree_end[node])
            for node, name in enumerate(tree.parsed)
            if name.kind is Kind.MODULE and name.direction is Direction.BACKWARD
        ),
        default=len(tree),
    )
    for node in range(last + 1, len(tree)):
        name, above = tree.parsed[node], tree.parsed[int(tree.parent[node])]
        is_call = name.kind is Kind.API and name.direction is Direction.FORWARD
        if is_call and above.kind is not Kind.MODULE:
            yield node


def _expected(
    operator: Operator, table: ParameterTable, arguments: Sequence[str], given: Sequence[int]
) -> float | None:
    """What a call has to put out by its inputs, None where that cannot be told.

    What a reduction has to put out is for all its ranks to tell: here it is what goes in.
    """
    norms: list[float] = np.abs(table.statistics[_NORM, given]).tolist()
    sizes: list[float] = table.numel[given].tolist()
    is_single = all(size == 1 for size in sizes)
    values = [value for value in map(_number, arguments) if value is not None]
    if _lists(operator) and given:
        return sqrt(sum(norm * norm for norm in norms)) if is_single else None
    if operator.name == "tensor":
        return abs(values[0]) if len(values) == 1 else None
    if len(given) != 1:
        return None
    [norm] = norms
    if _takes_norm(operator):
        return norm if set(arguments) <= _NORM_ARGUMENTS else None
    if operator.name == "sum":
        total = abs(float(table.statistics[_MEAN, given[0]])) * sizes[0]
        return total if set(arguments) <= _SUM_ARGUMENTS else None
    if not is_single:
        return None
    if operator.name == "all_reduce":
        return norm
    if operator.name == "sqrt":
        return sqrt(norm) if not arguments else None
    try:
        return norm ** values[0] if len(values) == len(arguments) == 1 else None
    except (OverflowError, ZeroDivisionError):
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
