"""The parameters of one node beside those of its partner."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from msprobe_builder.base.codes import METRICS, SLICES, STATISTICS
from msprobe_builder.database.read.cells import (
    are_floats,
    flags,
    integers,
    number,
    numbers,
    text,
    texts,
)

Key = tuple[int, int]  # node and ordinal
_Record = TypeVar("_Record", bound=tuple[Any, ...])

MAX_ORDINAL = 2**31
_SLICES = 2 * SLICES  # bytes
# Of a Parameter: ordinal, section, and both with the name.
_ORDINAL, _SECTION, _KEY = itemgetter(0), itemgetter(1), itemgetter(0, 1, 2)
# Of each section: inputs, parameters, outputs, gradients, the order in which a module computes.
_PLACES = (0, 2, 1, 3)


_OF_NODES = " FROM json_each(?) AS wanted JOIN {} ON node_id = wanted.value"
_OVERFLOWING = "SELECT node_id, ordinal" + _OF_NODES.format("overflow_parameter")
_RECIPES = "SELECT node_id, ordinal, recipe" + _OF_NODES.format("recipe_view")
_TENSORS = (
    "SELECT node_id, ordinal, section, name_id, type_id, dtype_id, shape_id,"
    " requires_grad, md5, file, nan_flags, max, min, mean, norm"
    f"{_OF_NODES.format('tensor')}"
)
_ARGUMENTS = (
    f"SELECT node_id, ordinal, section, name_id, type_id, value_id{_OF_NODES.format('argument')}"
)
_FINDINGS = "npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal, error"
COMPARISON_COLUMNS = f"{_FINDINGS}, nan_flags, note.value, slices, {', '.join(METRICS)}"
_WITHOUT_METRICS = f"{_FINDINGS}, 0, note.value, NULL"
_COMPARISONS = (
    "SELECT npu_node, {} FROM json_each(?) AS wanted JOIN comparison ON npu_node = wanted.value"
    " LEFT JOIN text AS note ON note.text_id = note_id ORDER BY npu_node, npu_ordinal"
)


class Parameter(NamedTuple):
    """A tensor, or with ``value`` anything else that was passed or returned."""

    ordinal: int
    section: int
    name: str
    type: str
    dtype: str = ""
    shape: str = ""
    statistics: tuple[float | None, ...] = (None,) * len(STATISTICS)
    requires_grad: bool | None = None
    md5: str = ""
    file: str = ""
    value: str | None = None
    overflows: bool = False
    recipe: str = ""  # how a merged value was made
    is_tensor: bool = False


# Of an argument: type of elements, shape, statistics, requires_grad, checksum and file.
_NO_TENSOR = tuple(Parameter._field_defaults.values())[:6]


class Comparison(NamedTuple):
    """The error metrics of a pair of tensors; ``metrics`` in the order of METRICS."""

    npu_ordinal: int
    bench_ordinal: int
    metrics: tuple[float | None, ...]
    md5_equal: bool | None
    requires_grad_equal: bool | None
    error: float | None
    note: str
    slices: bytes = b""  # shares of the difference in slices, see docs/design/database.md


class ParameterRow(NamedTuple):
    """A parameter of both sides, or of the one that has it."""

    npu: Parameter | None
    bench: Parameter | None
    comparison: Comparison | None = None


def pair_parameters(
    npu: list[Parameter], bench: list[Parameter], comparisons: list[Comparison]
) -> list[ParameterRow]:
    """Pairs that were compared, then equal names of a section, then what one side has alone.

    Both sides are in the order of their ordinals; the rows are in that of computing.
    """
    if _are_alike(npu, bench, comparisons):
        found = {comparison[0]: comparison for comparison in comparisons}
        found_of = map(found.get, map(_ORDINAL, npu))
        rows = list(map(_made(ParameterRow), zip(npu, bench, found_of, strict=True)))
        places = list(map(_PLACES.__getitem__, map(_SECTION, npu)))
        if places != sorted(places):
            rows.sort(key=_row_order)
        return rows
    npu_left = {parameter.ordinal: parameter for parameter in npu}
    bench_left = {parameter.ordinal: parameter for parameter in bench}
    rows = []
    for comparison in comparisons:
        own, other = comparison[:2]
        if own in npu_left and other in bench_left:
            rows.append(ParameterRow(npu_left.pop(own), bench_left.pop(other), comparison))
    if npu_left or bench_left:
        by_name: dict[tuple[int, str], deque[Parameter]] = defaultdict(deque)
        for parameter in bench_left.values():
            by_name[parameter.section, parameter.name].append(parameter)
        for parameter in npu_left.values():
            same = by_name[parameter.section, parameter.name]
            rows.append(ParameterRow(parameter, same.popleft() if same else None))
        rows += [ParameterRow(None, parameter) for left in by_name.values() for parameter in left]
    rows.sort(key=_row_order)
    return rows


def _are_alike(npu: list[Parameter], bench: list[Parameter], comparisons: list[Comparison]) -> bool:
    """Whether both sides hold the same names in the same places, compared one by one."""
    return list(map(_KEY, npu)) == list(map(_KEY, bench)) and all(
        comparison[0] == comparison[1] for comparison in comparisons
    )


def _row_order(row: ParameterRow) -> tuple[int, int, bool]:
    parameter = row[0] or row[1]
    assert parameter is not None
    return _PLACES[parameter.section], parameter.ordinal, row[0] is None


def read_parameters(connection: sqlite3.Connection, node: int) -> list[Parameter]:
    """Tensors and other arguments of a node in the order of its record."""
    return read_parameters_of(connection, [node])[node]


def read_parameters_of(
    connection: sqlite3.Connection, nodes: Sequence[int], *, values_only: bool = False
) -> dict[int, list[Parameter]]:
    """The same of many nodes; with ``values_only`` nothing is said of overflow."""
    wanted = (json.dumps(list(nodes)),)
    bad: set[Key] = set()
    recipes: dict[Key, object] = {}
    if not values_only:
        for node, ordinal in connection.execute(_OVERFLOWING, wanted):
            bad.add((node, ordinal))
    for node, ordinal, recipe in connection.execute(_RECIPES, wanted):
        recipes[node, ordinal] = recipe
    found: dict[int, list[Parameter]] = {node: [] for node in nodes}
    for query, made in ((_TENSORS, _tensors), (_ARGUMENTS, _arguments)):
        if rows := connection.execute(query, wanted).fetchall():
            owners, *columns = zip(*rows, strict=True)
            keys = list(zip(owners, columns[0], strict=True)) if bad or recipes else []
            last = (
                (key in bad for key in keys) if bad else repeat(False),
                (text(recipes.get(key)) for key in keys) if recipes else repeat(""),
            )
            for owner, parameter in zip(owners, made(connection, columns, last), strict=True):
                found[owner].append(parameter)
    for parameters in found.values():
        parameters.sort(key=_ORDINAL)
    return found


# Whether each of some parameters overflows, and its recipe.
_FoundOut = tuple[Iterable[bool], Iterable[str]]


def _tensors(
    connection: sqlite3.Connection, columns: Sequence[Sequence[Any]], found_out: _FoundOut
) -> Iterator[Parameter]:
    """The tensors in columns of _TENSORS but for the first."""
    ordinals, sections, *words, requires_grad, md5, file, nan_flags = columns[:10]
    known = _texts(connection, words)
    return map(
        _made(Parameter),
        zip(
            integers(ordinals, 0, MAX_ORDINAL),
            integers(sections, 0, 3),
            *(map(known.__getitem__, column) for column in words),
            _numbers(columns[10:], nan_flags),
            flags(requires_grad),
            texts(md5),
            texts(file),
            repeat(None),  # the value, which no tensor has
            *found_out,
            repeat(True),
            strict=False,  # what is repeated has no end
        ),
    )


def _arguments(
    connection: sqlite3.Connection, columns: Sequence[Sequence[Any]], found_out: _FoundOut
) -> Iterator[Parameter]:
    """The arguments in columns of _ARGUMENTS but for the first."""
    ordinals, sections, names, types, values = columns
    known = _texts(connection, (names, types, values))
    return map(
        _made(Parameter),
        zip(
            integers(ordinals, 0, MAX_ORDINAL),
            integers(sections, 0, 3),
            map(known.__getitem__, names),
            map(known.__getitem__, types),
            *map(repeat, _NO_TENSOR),
            (None if value is None else known[value] for value in values),
            *found_out,
            repeat(False),
            strict=False,
        ),
    )


def read_comparisons(connection: sqlite3.Connection, npu_node: int | None) -> list[Comparison]:
    """The compared pairs of a node with its partner."""
    return [] if npu_node is None else read_comparisons_of(connection, [npu_node])[npu_node]


def read_comparisons_of(
    connection: sqlite3.Connection, npu_nodes: Sequence[int], *, metrics: bool = True
) -> dict[int, list[Comparison]]:
    """The same of many nodes; without ``metrics`` those are an empty tuple."""
    found: dict[int, list[Comparison]] = {node: [] for node in npu_nodes}
    query = _COMPARISONS.format(COMPARISON_COLUMNS if metrics else _WITHOUT_METRICS)
    rows = connection.execute(query, (json.dumps(list(npu_nodes)),)).fetchall()
    if rows:
        owners, *columns = zip(*rows, strict=True)
        for owner, comparison in zip(owners, _comparisons(columns), strict=True):
            found[owner].append(comparison)
    return found


def _texts(
    connection: sqlite3.Connection, columns: Iterable[Sequence[int | None]]
) -> dict[int | None, str]:
    """Texts by their ids, as few stand in many rows; NULL, and an id without one, is empty."""
    wanted = {one for column in columns for one in column}
    found: dict[int | None, str] = dict.fromkeys(wanted, "")
    known = json.dumps([one for one in wanted if type(one) is int])
    for text_id, value in connection.execute(
        "SELECT text_id, text.value FROM json_each(?) AS wanted JOIN text"
        " ON text_id = wanted.value",
        (known,),
    ):
        found[text_id] = text(value)
    return found


def comparisons_of(rows: Sequence[Sequence[Any]]) -> Iterator[Comparison]:
    """The comparisons in rows of the columns COMPARISON_COLUMNS."""
    return _comparisons(list(zip(*rows, strict=True))) if rows else iter(())


def _comparisons(columns: Sequence[Sequence[Any]]) -> Iterator[Comparison]:
    npu, bench, md5_equal, requires_grad_equal, error, nan_flags, note, slices, *metrics = columns
    return map(
        _made(Comparison),
        zip(
            integers(npu, 0, MAX_ORDINAL),
            integers(bench, 0, MAX_ORDINAL),
            _numbers(metrics, nan_flags),
            flags(md5_equal),
            flags(requires_grad_equal),
            numbers(error),
            texts(note),
            (one if isinstance(one, bytes) and len(one) == _SLICES else b"" for one in slices),
            strict=False,
        ),
    )


def _made(record: type[_Record]) -> Callable[[tuple[Any, ...]], _Record]:
    """The class out of a tuple of as many values as it has fields, which ``_make`` counts."""
    return partial(tuple.__new__, record)


def _numbers(
    columns: Sequence[Sequence[Any]], nan_flags: Sequence[Any]
) -> Iterable[tuple[float | None, ...]]:
    """The numbers of each row; bit i of its flags says that of column i is NaN."""
    bits_of = integers(nan_flags)
    if not columns:
        return repeat(())
    if not any(bits_of) and all(map(are_floats, columns)):
        return zip(*columns, strict=True)  # nearly all are
    return [
        tuple(number(value, bits >> bit & 1) for bit, value in enumerate(values))
        for *values, bits in zip(*columns, bits_of, strict=True)
    ]
