"""Arguments of matched calls that are no tensors and differ: a scale, an epsilon, a dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.verdict.operators import operator_of

Int = NDArray[np.int64]

# A size that follows from the size of a tensor says nothing that the tensor does not.
_NUMBERS = frozenset({"int", "float", "bool", "str", "torch.dtype"})
# What they are told about sizes shows in the shape of what they put out.
_OF_SIZES = frozenset({"view", "reshape", "expand", "flatten", "unflatten", "size", "split"})
_FILLER = 1e4
_SAME = 1e-6  # two spellings of one number


@dataclass(frozen=True)
class Argument:
    """One argument with its value on both sides; ``present`` says which side has it at all."""

    name: str
    npu: str
    bench: str


def differing_arguments(
    tree: Tree,
    table: ParameterTable,
    bench: ParameterTable,
    partner: Int,
    texts: Texts,
    *,
    other_types: bool,
) -> dict[int, list[Argument]]:
    """Differing arguments of each npu call that has any.

    Arguments go by their names; with ``other_types`` (the runs are of different precision) a type
    that differs is no difference.
    """
    is_api = np.array(
        [name.kind is Kind.API and operator_of(name.stem) not in _OF_SIZES for name in tree.parsed],
        dtype=bool,
    )
    kinds = np.array([text in _NUMBERS for text in texts.values] + [True])  # None has no type
    rows = _plain(table, kinds)
    rows = rows[is_api[table.node[rows]] & (partner[table.node[rows]] >= 0)]
    others = _plain(bench, kinds)
    width = len(texts) + 1
    key = partner[table.node[rows]] * width + table.name_id[rows]
    other_key = bench.node[others] * width + bench.name_id[others]
    order = np.argsort(other_key, kind="stable")
    place = np.minimum(np.searchsorted(other_key[order], key), max(len(others) - 1, 0))
    if not len(others) or not len(rows):
        return {}
    match = others[order[place]]
    both = other_key[order[place]] == key
    differs = both & (table.value_id[rows] != bench.value_id[match])
    result: dict[int, list[Argument]] = {}
    for row, other in zip(rows[differs].tolist(), match[differs].tolist(), strict=True):
        left, right = _shown(table, row, texts), _shown(bench, other, texts)
        kinds_here = {_type(table, row, texts), _type(bench, other, texts)}
        if _equal(left, right) or (other_types and "torch.dtype" in kinds_here):
            continue
        name = texts.values[table.name_id[row]].removeprefix("input.")
        result.setdefault(int(table.node[row]), []).append(Argument(name, left, right))
    return result


def _plain(table: ParameterTable, kinds: NDArray[np.bool_]) -> Int:
    found = ~table.is_tensor & (table.section == Section.INPUT) & kinds[table.type_id]
    return np.flatnonzero(found)


def _shown(table: ParameterTable, row: int, texts: Texts) -> str:
    value = int(table.value_id[row])
    return "None" if value < 0 else texts.values[value]


def _type(table: ParameterTable, row: int, texts: Texts) -> str:
    kind = int(table.type_id[row])
    return "None" if kind < 0 else texts.values[kind]


def _equal(left: str, right: str) -> bool:
    if left == right or "0x" in left or "0x" in right:
        return True
    if {left.partition(":")[0], right.partition(":")[0]} <= {"cpu", "cuda", "npu"}:
        return True
    try:
        n, b = float(left), float(right)
    except ValueError:
        return False
    if min(abs(n), abs(b)) >= _FILLER and (n > 0) == (b > 0):
        return True  # the lowest number of each side's type, to hide what it stands for
    return n == b or abs(n - b) <= _SAME * max(abs(n), abs(b))
