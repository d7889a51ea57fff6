"""The parameters of one node beside those of its partner."""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from dataclasses import dataclass

from tb_graph_ascend.cells import flag, integer, number, optional_text, text

MAX_ORDINAL = 2**31
STATISTICS = ("max", "min", "mean", "norm")
METRICS = (
    "max_diff",
    "min_diff",
    "mean_diff",
    "norm_diff",
    "max_relative_err",
    "min_relative_err",
    "mean_relative_err",
    "norm_relative_err",
    "cosine",
    "euclidean_distance",
    "max_abs_err",
    "max_elementwise_relative_err",
    "one_thousandth_ratio",
    "five_thousandths_ratio",
)
# Inputs, parameters, outputs, gradients of parameters: the order in which a module computes.
SECTION_ORDER = (0, 2, 1, 3)


@dataclass(frozen=True)
class Parameter:
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


@dataclass(frozen=True)
class Comparison:
    """The error metrics of a pair of tensors; ``metrics`` in the order of METRICS."""

    npu_ordinal: int
    bench_ordinal: int
    metrics: tuple[float | None, ...]
    md5_equal: bool | None
    requires_grad_equal: bool | None
    error: float | None
    note: str


@dataclass(frozen=True)
class ParameterRow:
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
    overflowing = connection.execute(
        "SELECT ordinal FROM overflow_parameter WHERE node_id = ?", (node,)
    )
    bad = {ordinal for (ordinal,) in overflowing}
    recipes = dict(
        connection.execute("SELECT ordinal, recipe FROM recipe_view WHERE node_id = ?", (node,))
    )
    tensors = connection.execute(
        "SELECT ordinal, section, name.value, type.value, dtype.value, shape.value,"
        " requires_grad, md5, file, nan_flags, max, min, mean, norm FROM tensor"
        " LEFT JOIN text AS name ON name.text_id = name_id"
        " LEFT JOIN text AS type ON type.text_id = type_id"
        " LEFT JOIN text AS dtype ON dtype.text_id = dtype_id"
        " LEFT JOIN text AS shape ON shape.text_id = shape_id"
        " WHERE node_id = ?",
        (node,),
    )
    found = [
        Parameter(
            ordinal=integer(ordinal, 0, MAX_ORDINAL),
            section=integer(section, 0, 3),
            name=text(name),
            type=text(kind),
            dtype=text(dtype),
            shape=text(shape),
            statistics=_numbers(statistics, nan_flags),
            requires_grad=flag(requires_grad),
            md5=text(md5),
            file=text(file),
            overflows=ordinal in bad,
            recipe=text(recipes.get(ordinal)),
        )
        for ordinal, section, name, kind, dtype, shape, requires_grad, md5, file, nan_flags,
        *statistics in tensors
    ]  # fmt: skip
    arguments = connection.execute(
        "SELECT ordinal, section, name.value, type.value, value.value FROM argument"
        " LEFT JOIN text AS name ON name.text_id = name_id"
        " LEFT JOIN text AS type ON type.text_id = type_id"
        " LEFT JOIN text AS value ON value.text_id = value_id"
        " WHERE node_id = ?",
        (node,),
    )
    found += [
        Parameter(
            ordinal=integer(ordinal, 0, MAX_ORDINAL),
            section=integer(section, 0, 3),
            name=text(name),
            type=text(kind),
            value=optional_text(value),
            overflows=ordinal in bad,
            recipe=text(recipes.get(ordinal)),
        )
        for ordinal, section, name, kind, value in arguments
    ]
    return sorted(found, key=lambda parameter: parameter.ordinal)


def read_comparisons(connection: sqlite3.Connection, npu_node: int | None) -> list[Comparison]:
    """The compared pairs of a node with its partner."""
    rows = connection.execute(
        "SELECT npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal,"
        " error, nan_flags,"
        f" note.value, {', '.join(METRICS)} FROM comparison"
        " LEFT JOIN text AS note ON note.text_id = note_id"
        " WHERE npu_node = ? ORDER BY npu_ordinal",
        (npu_node,),
    )
    return [
        Comparison(
            npu_ordinal=integer(npu_ordinal, 0, MAX_ORDINAL),
            bench_ordinal=integer(bench_ordinal, 0, MAX_ORDINAL),
            metrics=_numbers(metrics, nan_flags),
            md5_equal=flag(md5_equal),
            requires_grad_equal=flag(requires_grad_equal),
            error=number(error),
            note=text(note),
        )
        for npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal, error, nan_flags, note,
        *metrics in rows
    ]  # fmt: skip


def _numbers(values: list[object], nan_flags: object) -> tuple[float | None, ...]:
    bits = integer(nan_flags)
    return tuple(number(value, bits >> bit & 1) for bit, value in enumerate(values))
