"""Which tensors of a matched node belong together where one side is of MindSpore, one of PyTorch.

Equal calls take their arguments in other orders there, hooks hand gradients over in another order,
and layers call their parameters otherwise. So parameters are paired by their role, and tensors of a
call by their place only where sizes agree; what is equal belongs together wherever it stands.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.pairing import Pairs, pair_tensors

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_NORM = 3
_EQUAL = 1e-4  # as far as two frameworks round alike
# What layers of MindSpore call the parameters that PyTorch's have.
_ROLES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}
_VECTOR = re.compile(r"\[\d+\]")
_BY_ROLE = (Section.PARAMETERS, Section.PARAMETERS_GRAD)


def pair_sides(npu: Side, bench: Side, partner: Int, texts: Texts) -> Pairs:
    """Pairs of tensors of all matched nodes, by place or, across frameworks, by what they are."""
    pairs = pair_tensors(npu.table, bench.table, partner)
    nodes = across_frameworks(npu, bench, partner, texts) | _other_operators(npu, bench, partner)
    if not nodes.any():
        return pairs
    by_place = ~nodes[npu.table.node[pairs.npu]]
    found = list(zip(pairs.npu[by_place].tolist(), pairs.bench[by_place].tolist(), strict=True))
    taken = _taken_in(npu), _taken_in(bench)
    for node in np.flatnonzero(nodes).tolist():
        found += _of_node(npu, bench, node, int(partner[node]), texts, taken)
    columns = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
    return Pairs(columns[0], columns[1])


def across_frameworks(npu: Side, bench: Side, partner: Int, texts: Texts) -> Bool:
    """Npu nodes whose partner is of the other framework."""
    of_npu, of_bench = (_of_mindspore(side, texts) for side in (npu, bench))
    if not of_npu.any() and not of_bench.any():
        return np.zeros(len(partner), dtype=bool)
    return np.asarray((partner >= 0) & (of_npu != of_bench[partner]))


def _other_operators(npu: Side, bench: Side, partner: Int) -> Bool:
    """Npu calls of several tensors whose partner takes them as another operator does."""
    given = (npu.table.section == Section.INPUT) & npu.table.is_tensor
    several = np.bincount(npu.table.node[given], minlength=len(partner)) > 1
    return several & npu.tree.calls.by_other_operators(bench.tree.calls, partner)


def _of_mindspore(side: Side, texts: Texts) -> Bool:
    """Nodes that take or put out a tensor of MindSpore."""
    table, result = side.table, np.zeros(len(side.tree), dtype=bool)
    known = np.array([*map(_is_mindspore, texts.values), False])  # the last is that of no text
    if known.any():
        result[table.node[known[table.type_id]]] = True
    return result


def _is_mindspore(type_name: str) -> bool:
    return type_name.partition(".")[0] == "mindspore"


_Tensors = set[tuple[float, ...]]


def _taken_in(side: Side) -> _Tensors:
    """What backward calls take in."""
    table = side.table
    backward = side.tree.calls.direction == Direction.BACKWARD
    rows = backward[table.node] & (table.section == Section.INPUT) & table.is_tensor
    return {_tensor(table, row) for row in np.flatnonzero(rows).tolist()}


def _tensor(table: ParameterTable, row: int) -> tuple[float, ...]:
    return (float(table.numel[row]), *table.statistics[:, row].tolist())


def _of_node(
    npu: Side,
    bench: Side,
    node: int,
    other: int,
    texts: Texts,
    taken: tuple[_Tensors, _Tensors],
) -> list[tuple[int, int]]:
    left, right = _sections(npu.table, node), _sections(bench.table, other)
    backward = npu.tree.parsed[node].direction is Direction.BACKWARD
    found: list[tuple[int, int]] = []
    adds_more = False
    for section, rows in left.items():
        others = right.get(section, [])
        if section in _BY_ROLE:
            found += _by_role(npu.table, bench.table, rows, others, texts)
            continue
        more, rest, other_rest = _equal_ones(npu.table, bench.table, rows, others)
        found += more
        if section == Section.INPUT:
            adds_more = not rest and _is_vector(bench.table, other_rest, texts)
            adds_more |= not other_rest and _is_vector(npu.table, rest, texts)
        if section == Section.OUTPUT and adds_more:
            continue  # where a call of its own adds the bias, its output is the counterpart
        if section == Section.OUTPUT and backward:
            given = left.get(Section.INPUT, []), right.get(Section.INPUT, [])
            rest = _telling(npu.table, rest, given[0])
            other_rest = _telling(bench.table, other_rest, given[1])
        more = _of_equal_size(npu.table, bench.table, rest, other_rest)
        if section == Section.OUTPUT and backward:
            # Hooks of a step inside a call see a gradient that no other call is given.
            more = [
                (row, place)
                for row, place in more
                if (_tensor(npu.table, row) in taken[0])
                == (_tensor(bench.table, place) in taken[1])
            ]
        found += more
    return found


def _is_vector(table: ParameterTable, rows: list[int], texts: Texts) -> bool:
    shapes = [texts.values[one] for one in table.shape_id[rows].tolist() if one >= 0]
    return len(rows) == 1 and any(map(_VECTOR.fullmatch, shapes))


def _sections(table: ParameterTable, node: int) -> dict[int, list[int]]:
    begin, end = np.searchsorted(table.node, [node, node + 1]).tolist()
    result: dict[int, list[int]] = defaultdict(list)
    for row in range(begin, end):
        if table.is_tensor[row]:
            result[int(table.section[row])].append(row)
    return result


def _by_role(
    npu: ParameterTable, bench: ParameterTable, rows: list[int], others: list[int], texts: Texts
) -> list[tuple[int, int]]:
    """Parameters of one role; what only one side has is compared with nothing."""
    roles = {_role(bench, row, texts): row for row in others}
    found = []
    for row in rows:
        other = roles.get(_role(npu, row, texts))
        if other is not None and not _zero((npu, row, rows), (bench, other, others), texts):
            found.append((row, other))
    return found


def _role(table: ParameterTable, row: int, texts: Texts) -> str:
    name = texts.values[table.name_id[row]].rpartition(".")[2]
    return str(_ROLES.get(name, name))


_Row = tuple[ParameterTable, int, list[int]]  # a row, and all of its node and section


def _zero(npu: _Row, bench: _Row, texts: Texts) -> bool:
    """Whether a gradient is zero up to rounding beside the other gradients of its node."""
    if npu[0].section[npu[1]] != Section.PARAMETERS_GRAD:
        return False
    return _is_rounding(*npu, texts) and _is_rounding(*bench, texts)


def _is_rounding(table: ParameterTable, row: int, rows: list[int], texts: Texts) -> bool:
    norms = table.statistics[_NORM, rows]
    if np.isnan(norms).any():
        return False
    epsilon = float(epsilons(table.dtype_id[[row]], texts)[0])
    return bool(table.statistics[_NORM, row] <= epsilon * norms.max())


def _equal_ones(
    npu: ParameterTable, bench: ParameterTable, rows: list[int], others: list[int]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Tensors that are equal as far as their statistics tell, the nearest place first."""
    found: list[tuple[int, int]] = []
    rest: list[int] = []
    left = list(others)
    for row in rows:
        fitting = [other for other in left if _agrees(npu, bench, row, other)]
        if fitting:
            place = npu.position[row]
            best = min(fitting, key=lambda other: abs(int(bench.position[other] - place)))
            found.append((row, best))
            left.remove(best)
        else:
            rest.append(row)
    return found, rest, left


def _agrees(npu: ParameterTable, bench: ParameterTable, row: int, other: int) -> bool:
    left, right = npu.statistics[:, row], bench.statistics[:, other]
    if npu.numel[row] != bench.numel[other] or not np.isfinite([left, right]).all():
        return False
    scale = max(np.abs(left[:2]).max(), np.abs(right[:2]).max())
    units = np.array([scale, scale, scale, max(left[_NORM], right[_NORM])])
    return bool((np.abs(left - right) <= _EQUAL * units).all())


def _telling(table: ParameterTable, rows: list[int], given: list[int]) -> list[int]:
    """Gradients without those that are what the call was given: hooks of a step inside it see
    that, in another shape."""
    return [row for row in rows if not any(_agrees(table, table, row, one) for one in given)]


def _of_equal_size(
    npu: ParameterTable, bench: ParameterTable, rows: list[int], others: list[int]
) -> list[tuple[int, int]]:
    """What is left by its order among the tensors of its size, where both sides have as many."""
    found: list[tuple[int, int]] = []
    sizes = {float(npu.numel[row]) for row in rows}
    for size in sorted(sizes):
        of_npu = [row for row in rows if npu.numel[row] == size]
        of_bench = [other for other in others if bench.numel[other] == size]
        if len(of_npu) == len(of_bench):
            found += zip(of_npu, of_bench, strict=True)
    return found
