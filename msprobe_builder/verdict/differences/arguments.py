"""Arguments of matched calls that are no tensors and differ: a scale, an epsilon, a dimension.

An argument that one side alone gives is held against the default that the other one takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import inputs_of, rows_of
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind, Operator

Int = NDArray[np.int64]

# A size that follows from the size of a tensor says nothing that the tensor does not.
_NUMBERS = frozenset({"int", "float", "bool", "str", "slice", "torch.dtype"})
_ALONG_DIMENSIONS = frozenset(
    {Kind.SHAPE, Kind.TRANSPOSE, Kind.TURN, Kind.SLICE, Kind.JOIN, Kind.REDUCTION, Kind.NORMALISE}
)
_DIMENSIONS = frozenset(
    "dim dims dim0 dim1 dim2 start_dim end_dim axis axes axis0 axis1 source destination".split()
)
_INDEX = "2"  # the place of what select and narrow begin with
_LEAST_MASK = 1e4
_MOMENTUM, _TRAINS = "momentum", ("training", "use_input_stats")
_AVERAGES = ("1", "running_mean")  # by their place, or by name
_SAME = 1e-6  # two spellings of one number
_ROUNDED = 8 * 2.0**-20  # a number that was taken from a tensor is rounded as that is


@dataclass(frozen=True)
class Argument:
    """One argument with its value on both sides; ``present`` says which side has it at all."""

    name: str
    npu: str
    bench: str
    is_count: bool = False  # a whole number on both sides, or a slice; of ranks also 8.0 of 16.0
    is_order: bool = False  # of the tensors that are joined, told by their shapes
    is_slight: bool = False  # no more than rounding: evidence only where it shows in what comes out


def differing_arguments(
    calls: Calls,
    other_calls: Calls,
    table: ParameterTable,
    bench: ParameterTable,
    partner: Int,
    texts: Texts,
    *,
    other_types: bool,
    ranges_differ: bool = False,
) -> dict[int, list[Argument]]:
    """Differing arguments of each npu call that has any.

    Arguments go by their names; with ``other_types`` (the runs are of different precision) a type
    that differs is no difference, with ``ranges_differ`` (ranks hold parts) a slice that differs.
    """
    # What they are told about sizes shows in the shape of what they put out.
    is_api = calls.is_api & ~calls.are(lambda one: "sizes" in one.traits)
    is_api &= ~calls.by_other_operators(other_calls, partner)
    kinds = np.array([text in _NUMBERS for text in texts.values] + [True])  # None has no type
    rows = _plain(table, kinds)
    rows = rows[is_api[table.node[rows]] & (partner[table.node[rows]] >= 0)]
    others = _plain(bench, kinds)
    width = len(texts) + 1
    key = partner[table.node[rows]] * width + table.name_id[rows]
    other_key = bench.node[others] * width + bench.name_id[others]
    order = np.argsort(other_key, kind="stable")
    place = _first_places(key, other_key[order])
    both = place >= 0
    alone = others[_first_places(other_key, np.sort(key)) < 0]
    is_alone = np.zeros(len(other_calls.stem) + 1, dtype=bool)  # the last is that of no partner
    is_alone[bench.node[alone]] = True
    one_sided = is_alone[partner]
    one_sided[table.node[rows[~both]]] = True
    tensors, bench_tensors = (
        np.bincount(one.node[one.is_tensor & (one.section == Section.INPUT)], minlength=size)
        for one, size in ((table, len(partner)), (bench, len(other_calls.stem)))
    )
    one_sided |= tensors != bench_tensors[partner]
    asked = np.flatnonzero(one_sided & (partner >= 0) & calls.are(lambda one: bool(one.acts)))
    result = _left_out(asked, (calls, table), (other_calls, bench), partner, texts)
    result |= _other_dimensions((calls, table), bench, partner, texts)
    if not ranges_differ:
        result |= _joined_otherwise((calls, table), (other_calls, bench), partner, texts)
    if not both.any():
        return result
    is_maker = (
        calls.are(questions.makes_a_number) if ranges_differ else np.zeros(len(partner), dtype=bool)
    )
    match = others[order[place]]
    differs = both & (table.value_id[rows] != bench.value_id[match])
    for row, other in zip(rows[differs].tolist(), match[differs].tolist(), strict=True):
        left, right = _shown(table, row, texts), _shown(bench, other, texts)
        kinds_here = {_type(table, row, texts), _type(bench, other, texts)}
        if kinds_here == {"slice"} and (ranges_differ or _same_slice(left, right)):
            continue
        node, partners = int(table.node[row]), int(bench.node[other])
        operator = calls.operators[calls.stem[node]]
        name = texts.values[table.name_id[row]].removeprefix("input.")
        if kinds_here == {"int"} and operator.kind in _ALONG_DIMENSIONS:
            shapes = _shape(table, node, texts), _shape(bench, partners, texts)
            if _is_counted_from_the_end(operator, name, (int(left), int(right)), shapes):
                continue
        hides = "takes_infinity" in operator.traits
        if _equal(left, right, hides=hides) or (other_types and "torch.dtype" in kinds_here):
            continue
        if _is_idle(operator, name):
            continue
        if _names(operator, name, _MOMENTUM) and not _moves_averages(table, node, operator, texts):
            continue
        result.setdefault(int(table.node[row]), []).append(
            Argument(
                name,
                left,
                right,
                is_count=kinds_here <= {"int", "slice"}
                or (bool(is_maker[table.node[row]]) and _are_counts(left, right)),
                is_slight=_equal(left, right, _ROUNDED, hides=hides),
            )
        )
    return result


def _is_idle(operator: Operator, name: str) -> bool:
    """Whether an argument, by its name or place, changes nothing that a call puts out or moves."""
    return any(_names(operator, name, one) for one in operator.idle)


def _names(operator: Operator, name: str, argument: str) -> bool:
    """Whether a name, or the number of a place, stands for an argument of an operator."""
    known = operator.arguments.get(argument)
    return name == argument or (known is not None and name == str(known.place))


def _moves_averages(table: ParameterTable, node: int, operator: Operator, texts: Texts) -> bool:
    """Whether a normalisation has averages to move, and does so: not in evaluation."""
    names = {
        texts.values[table.name_id[row]].removeprefix("input."): row for row in rows_of(table, node)
    }
    trains = (
        _shown(table, row, texts) != "False"
        for name, row in names.items()
        if any(_names(operator, name, one) for one in _TRAINS)
    )
    return any(table.is_tensor[names[one]] for one in _AVERAGES if one in names) and all(trains)


def _are_counts(left: str, right: str) -> bool:
    """Whether two floats are whole numbers, one a multiple of the other: parts and their whole."""
    try:
        one, other = sorted((float(left), float(right)))
    except ValueError:
        return False
    return one >= 1 and one.is_integer() and (other / one).is_integer()


def _is_counted_from_the_end(
    operator: Operator, name: str, values: tuple[int, int], shapes: tuple[list[int], list[int]]
) -> bool:
    """Whether two whole numbers are one dimension, or one place along one, of two shapes."""
    if not all(shapes):
        return False
    place = name.partition(".")[0]
    words = {str(one.place): word for word, one in operator.arguments.items()}
    word = words.get(place, place)
    has_dimension = not _DIMENSIONS.isdisjoint(operator.arguments)
    is_index = operator.name == "getitem" or place == _INDEX
    is_dimension = word in _DIMENSIONS or (word.isdecimal() and not has_dimension)
    if is_dimension and not (operator.kind is Kind.SLICE and is_index):
        ends = [(value, len(shape)) for value, shape in zip(values, shapes, strict=True)]
        one, other = (value % rank - rank for value, rank in ends)
        return one == other and all(-rank <= value < rank for value, rank in ends)
    low, high = sorted(values)
    is_place = operator.kind is Kind.SLICE and low < 0 <= high
    return is_place and shapes[0] == shapes[1] and high - low in shapes[0]


def _shape(table: ParameterTable, node: int, texts: Texts) -> list[int]:
    """That of the first tensor that a node is given; nothing if unknown."""
    shapes = table.shape_id[inputs_of(table, node)]
    return parse_shape(texts, int(shapes[0])) if len(shapes) else []


def _first_places(wanted: Int, ordered: Int) -> Int:
    """Where each wanted number first stands in an ordered column, -1 where it does not."""
    if not len(ordered):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[place] == wanted, place, -1)


def _left_out(
    nodes: Int,
    npu: tuple[Calls, ParameterTable],
    bench: tuple[Calls, ParameterTable],
    partner: Int,
    texts: Texts,
) -> dict[int, list[Argument]]:
    """Arguments of npu calls that one side alone gives, and whose value is not the default.

    Where both sides give what the other one does not, these may be two spellings of one.
    """
    given = _given(nodes, *npu, texts)
    others = _given(partner[nodes], *bench, texts)
    result: dict[int, list[Argument]] = {}
    for node in nodes.tolist():
        operator, debug = given.get(node, _NONE)
        other_operator, reference = others.get(int(partner[node]), _NONE)
        if operator != other_operator:
            continue
        found, sides = [], set()
        for name in operator.acts:
            place, default = operator.arguments[name][:2]
            assert default is not None  # as a test of the table says
            left, right = (one.get(name, one.get(str(place))) for one in (debug, reference))
            if left == right or (_NO_TEXT in (left, right) and default != "None"):
                continue
            left, right = ("a tensor" if one == _NO_TEXT else one for one in (left, right))
            if left is None or right is None:
                sides.add(left is None)
            left, right = left or default, right or default
            if "a tensor" in (left, right) and "None" not in (left, right):
                continue  # of what numbers nobody knows
            if not _equal(left, right):
                found.append(Argument(name, left, right, is_slight=_equal(left, right, _ROUNDED)))
        if found and len(sides) <= 1:
            result[node] = found
    return result


def _joined_otherwise(
    npu: tuple[Calls, ParameterTable],
    bench: tuple[Calls, ParameterTable],
    partner: Int,
    texts: Texts,
) -> dict[int, list[Argument]]:
    """Calls that join tensors of the same shapes in another order, as the shapes tell."""
    calls, table = npu
    nodes = calls.is_forward_call & calls.are(questions.joins) & (partner >= 0)
    reference = np.zeros(len(bench[0].stem), dtype=bool)
    reference[partner[nodes]] = True
    debug, others = _shapes(table, nodes), _shapes(bench[1], reference)
    result = {}
    for node, shapes in debug.items():
        other = others.get(int(partner[node]), [])
        if shapes != other and sorted(shapes) == sorted(other):
            left, right = (", ".join(texts.values[one] for one in two) for two in (shapes, other))
            result[node] = [Argument("tensors", left, right, is_order=True)]
    return result


def _shapes(table: ParameterTable, nodes: NDArray[np.bool_]) -> dict[int, list[int]]:
    """The shapes of the tensors that some calls are given, in their order."""
    asked = table.is_tensor & (table.section == Section.INPUT) & (table.shape_id >= 0)
    rows = np.flatnonzero(asked & nodes[table.node])
    result: dict[int, list[int]] = {}
    for node, shape in zip(table.node[rows].tolist(), table.shape_id[rows].tolist(), strict=True):
        result.setdefault(node, []).append(shape)
    return result


def _other_dimensions(
    npu: tuple[Calls, ParameterTable], bench: ParameterTable, partner: Int, texts: Texts
) -> dict[int, list[Argument]]:
    """Calls that reduce over more dimensions than their partner, or over fewer.

    Over several dimensions at once, so that one that is left out is no other spelling.
    """
    calls, table = npu
    nodes = calls.is_api & calls.are(lambda one: one.kind is Kind.REDUCTION) & (partner >= 0)
    debug, reference = (
        _lists(table, np.flatnonzero(nodes), texts),
        _lists(bench, partner[nodes], texts),
    )
    result = {}
    for (node, name), left in debug.items():
        right = reference.get((int(partner[node]), name), left)
        if len(left) != len(right):
            result[node] = [Argument(name, ", ".join(left), ", ".join(right))]
    return result


def _lists(table: ParameterTable, nodes: Int, texts: Texts) -> dict[tuple[int, str], list[str]]:
    """Plain arguments of some calls that are made of several values, by node and name."""
    rows = np.flatnonzero(~table.is_tensor & (table.section == Section.INPUT))
    asked = np.zeros(1 + int(table.node.max(initial=0)), dtype=bool)
    asked[nodes[nodes < len(asked)]] = True
    rows = rows[asked[table.node[rows]]]
    result: dict[tuple[int, str], list[str]] = {}
    for row, text in zip(rows.tolist(), table.name_id[rows].tolist(), strict=True):
        name, _, inner = texts.values[text].removeprefix("input.").partition(".")
        if inner:
            result.setdefault((int(table.node[row]), name), []).append(_shown(table, row, texts))
    return result


_NONE: tuple[Operator, dict[str, str]] = Operator("", Kind.OTHER), {}
_NO_TEXT = "\0"  # a tensor, or what is made of several values


def _given(
    nodes: Int, calls: Calls, table: ParameterTable, texts: Texts
) -> dict[int, tuple[Operator, dict[str, str]]]:
    """Operator and arguments, by name or place, of calls of torch that have any."""
    kind = texts.find("torch.Tensor")
    is_asked = np.zeros(len(calls.stem), dtype=bool)
    is_asked[nodes] = True
    is_torch = np.zeros(len(calls.stem), dtype=bool)
    is_torch[table.node[table.type_id == kind]] = True
    is_asked &= is_torch
    result: dict[int, tuple[Operator, dict[str, str]]] = {}
    for row in np.flatnonzero(is_asked[table.node] & (table.section == Section.INPUT)).tolist():
        node = int(table.node[row])
        if node not in result:
            result[node] = calls.operators[int(calls.stem[node])], {}
        name, _, inner = texts.values[table.name_id[row]].removeprefix("input.").partition(".")
        is_plain = not table.is_tensor[row] and not inner
        result[node][1][name] = _shown(table, row, texts) if is_plain else _NO_TEXT
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


def _same_slice(left: str, right: str) -> bool:
    """Whether both begin and stride alike; where they end follows from sizes unless it is said."""
    bounds = [[part.strip() for part in one.strip("[]()").split(",")] for one in (left, right)]
    if any(len(one) != 3 for one in bounds):
        return True
    (start, stop, step), (other_start, other_stop, other_step) = (
        (None if one[0] == "0" else one[0], one[1], None if one[2] == "1" else one[2])
        for one in ([None if part == "None" else part for part in one] for one in bounds)
    )
    if start != other_start or step != other_step:
        return False
    return stop is None or other_stop is None or stop == other_stop


def _equal(left: str, right: str, same: float = _SAME, *, hides: bool = False) -> bool:
    """Whether two values are one; ``hides`` where a large one may stand for infinity.

    What is far below zero may anywhere, as it is added to what a mask hides.
    """
    if left == right or "0x" in left or "0x" in right:
        return True
    if {left.partition(":")[0], right.partition(":")[0]} <= {"cpu", "cuda", "npu"}:
        return True
    try:
        n, b = float(left), float(right)
    except ValueError:
        return False
    if max(n, b) <= -_LEAST_MASK or (hides and min(n, b) >= _LEAST_MASK):
        return True  # such as the lowest number of each side's type
    return n == b or abs(n - b) <= same * max(abs(n), abs(b))
