"""The parameters of one node beside those of its partner."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from msprobe_builder.base.codes import METRICS, STATISTICS
from msprobe_builder.database.read.cells import flag, integer, number, optional_text, text

MAX_ORDINAL = 2**31
_FLOATS = {float, type(None)}
# Inputs, parameters, outputs, gradients of parameters: the order in which a module computes.
SECTION_ORDER = (0, 2, 1, 3)


_OF_NODES = " FROM json_each(?) AS wanted JOIN {} ON node_id = wanted.value"
_OVERFLOWING = "SELECT node_id, ordinal" + _OF_NODES.format("overflow_parameter")
_RECIPES = "SELECT node_id, ordinal, recipe" + _OF_NODES.format("recipe_view")
_TENSORS = (
    "SELECT node_id, ordinal, section, name_id, type_id, dtype_id, shape_id,"
    " requires_grad, md5, file, nan_flags, max, min, mean, norm"
    f"{_OF_NODES.format('tensor')}"
)
_ARGUMENTS = (
    "SELECT node_id, ordinal, section, name.value, type.value, content.value"
    f"{_OF_NODES.format('argument')}"
    " LEFT JOIN text AS name ON name.text_id = name_id"
    " LEFT JOIN text AS type ON type.text_id = type_id"
    " LEFT JOIN text AS content ON content.text_id = value_id"
)
_FINDINGS = "npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal, error"
COMPARISON_COLUMNS = f"{_FINDINGS}, nan_flags, note.value, {', '.join(METRICS)}"
_WITHOUT_METRICS = f"{_FINDINGS}, 0, note.value"
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


class Comparison(NamedTuple):
    """The error metrics of a pair of tensors; ``metrics`` in the order of METRICS."""

    npu_ordinal: int
    bench_ordinal: int
    metrics: tuple[float | None, ...]
    md5_equal: bool | None
    requires_grad_equal: bool | None
    error: float | None
    note: str


class ParameterRow(NamedTuple):
    """A parameter of both sides, or of the one that has it."""

    npu: Parameter | None
    bench: Parameter | None
    comparison: Comparison | None = None


def pair_parameters(
    npu: list[Parameter], bench: list[Parameter], comparisons: list[Comparison]
) -> list[ParameterRow]:
    """Pairs that were compared, then equal names of a section, then what one side has alone."""
    npu_left = {parameter.ordinal: parameter for parameter in npu}
    bench_left = {parameter.ordinal: parameter for parameter in bench}
    rows: list[ParameterRow] = []
    for comparison in comparisons:
        if comparison.npu_ordinal in npu_left and comparison.bench_ordinal in bench_left:
            one = npu_left.pop(comparison.npu_ordinal)
            rows.append(ParameterRow(one, bench_left.pop(comparison.bench_ordinal), comparison))
    by_name: dict[tuple[int, str], deque[Parameter]] = defaultdict(deque)
    for parameter in bench_left.values():
        by_name[parameter.section, parameter.name].append(parameter)
    for parameter in npu_left.values():
        same = by_name[parameter.section, parameter.name]
        rows.append(ParameterRow(parameter, same.popleft() if same else None))
    rows += [ParameterRow(None, parameter) for left in by_name.values() for parameter in left]
    return sorted(rows, key=_row_order)


def _row_order(row: ParameterRow) -> tuple[int, int, bool]:
    parameter = row.npu or row.bench
    assert parameter is not None
    return SECTION_ORDER.index(parameter.section), parameter.ordinal, row.npu is None


def read_parameters(connection: sqlite3.Connection, node: int) -> list[Parameter]:
    """Tensors and other arguments of a node in the order of its record."""
    return read_parameters_of(connection, [node])[node]


def read_parameters_of(
    connection: sqlite3.Connection, nodes: Sequence[int], *, values_only: bool = False
) -> dict[int, list[Parameter]]:
    """The same of many nodes; with ``values_only`` nothing is said of overflow."""
    wanted = (json.dumps(list(nodes)),)
    bad: set[tuple[int, int]] = set()
    recipes: dict[tuple[int, int], object] = {}
    if not values_only:
        for node, ordinal in connection.execute(_OVERFLOWING, wanted):
            bad.add((node, ordinal))
    for node, ordinal, recipe in connection.execute(_RECIPES, wanted):
        recipes[node, ordinal] = recipe
    found: dict[int, list[Parameter]] = {node: [] for node in nodes}
    tensors = connection.execute(_TENSORS, wanted).fetchall()
    # Few texts stand in many rows: each is read once.
    texts = _texts(connection, {one for row in tensors for one in row[3:7]})
    for (
        node, ordinal, section, name, kind, dtype, shape, requires_grad, md5, file, nan_flags,
        *statistics,
    ) in tensors:  # fmt: skip
        key = node, ordinal
        found[node].append(
            Parameter(
                integer(ordinal, 0, MAX_ORDINAL),
                integer(section, 0, 3),
                texts[name],
                texts[kind],
                texts[dtype],
                texts[shape],
                _numbers(statistics, nan_flags),
                flag(requires_grad),
                text(md5),
                text(file),
                None,
                bool(bad) and key in bad,
                text(recipes[key]) if key in recipes else "",
                True,
            )
        )
    for node, ordinal, section, name, kind, value in connection.execute(_ARGUMENTS, wanted):
        found[node].append(
            Parameter(
                ordinal=integer(ordinal, 0, MAX_ORDINAL),
                section=integer(section, 0, 3),
                name=text(name),
                type=text(kind),
                value=optional_text(value),
                overflows=(node, ordinal) in bad,
                recipe=text(recipes.get((node, ordinal))),
            )
        )
    for parameters in found.values():
        parameters.sort(key=_ordinal)
    return found


def read_comparisons(connection: sqlite3.Connection, npu_node: int | None) -> list[Comparison]:
    """The compared pairs of a node with its partner."""
    return [] if npu_node is None else read_comparisons_of(connection, [npu_node])[npu_node]


def read_comparisons_of(
    connection: sqlite3.Connection, npu_nodes: Sequence[int], *, metrics: bool = True
) -> dict[int, list[Comparison]]:
    """The same of many nodes; without ``metrics`` those are an empty tuple."""
    found: dict[int, list[Comparison]] = {node: [] for node in npu_nodes}
    query = _COMPARISONS.format(COMPARISON_COLUMNS if metrics else _WITHOUT_METRICS)
    rows = connection.execute(query, (json.dumps(list(npu_nodes)),))
    for node, *columns in rows:
        found[node].append(comparison_of(columns))
    return found


def _texts(connection: sqlite3.Connection, wanted: set[int | None]) -> dict[int | None, str]:
    """Texts by their ids; NULL, and an id without a text, is the empty one."""
    found: dict[int | None, str] = dict.fromkeys(wanted, "")
    known = json.dumps([one for one in wanted if type(one) is int])
    for text_id, value in connection.execute(
        "SELECT text_id, text.value FROM json_each(?) AS wanted JOIN text"
        " ON text_id = wanted.value",
        (known,),
    ):
        found[text_id] = text(value)
    return found


def comparison_of(columns: Sequence[Any]) -> Comparison:
    """The comparison in the columns COMPARISON_COLUMNS of a row."""
    npu, bench, md5_equal, requires_grad_equal, error, nan_flags, note, *metrics = columns
    return Comparison(
        npu_ordinal=integer(npu, 0, MAX_ORDINAL),
        bench_ordinal=integer(bench, 0, MAX_ORDINAL),
        metrics=_numbers(metrics, nan_flags),
        md5_equal=flag(md5_equal),
        requires_grad_equal=flag(requires_grad_equal),
        error=number(error),
        note=text(note),
    )


def _ordinal(parameter: Parameter) -> int:
    return parameter.ordinal


def _numbers(values: list[object], nan_flags: object) -> tuple[float | None, ...]:
    bits = integer(nan_flags)
    if not bits and set(map(type, values)) <= _FLOATS:
        return tuple(values)  # type: ignore[arg-type]  # nearly all are
    return tuple(number(value, bits >> bit & 1) for bit, value in enumerate(values))
