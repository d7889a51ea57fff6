"""From the values of a call to the cells of a table."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from math import isfinite, isinf, isnan

from msprobe_builder.base.codes import METRICS, Section
from msprobe_builder.database.read.executed import Call
from msprobe_builder.database.read.parameters import Comparison, Parameter, ParameterRow
from msprobe_builder.dump.task import Task
from msprobe_builder.tables import columns as names
from msprobe_builder.tables import saved_values
from msprobe_builder.tables.columns import Columns
from msprobe_builder.tables.verdicts import (
    DIFFERENT,
    PASS,
    UNKNOWN,
    WARNING,
    corrected_accuracy,
    corrected_result,
    documented_accuracy,
    documented_result,
    section_word,
)

Cell = str | float | int | bool
_UNSUPPORTED = "unsupported"
_NOT_A_NUMBER = "Nan"
# Metrics that the document does not give of a single value, by its shape.
_WITHOUT = {"[]": (0, 1, 4, 5), "[1]": (0,)}
_NO_NUMBERS = ((None, None),) * 4
_NO_DIFFERENCES = dict.fromkeys((*names.DIFFERENCES, *names.RELATIVE_ERRORS), "N/A")
_CHECK = "A statistic differs by more than half: check this call."


@dataclass
class Row:
    """The cells of one value in the order of the columns, and what marks need of it."""

    cells: list[Cell]
    section: int
    is_bad: bool  # by the documented verdict
    largest: float | None = None  # |Max diff| or MaxAbsErr
    relative: float | None = None  # MaxRelativeErr of statistics, a fraction
    cosine: float | None = None
    ratio: float | None = None  # One Thousandth Err Ratio
    overflows: bool = False  # the npu side is not finite
    differs_in_grad: bool = False
    mark: str = ""  # red, yellow or nothing


def rows_of(call: Call, columns: Columns, task: Task, stack: str) -> list[Row]:
    """The rows of one call: inputs, parameters, outputs, gradients of parameters.

    ``stack`` stands in the first row.
    """
    result = []
    for place, pair in enumerate(call.rows):
        row = _row(call, pair, task)
        by_name = row[0]
        if columns.has_stack:
            by_name[names.STACK] = stack if place == 0 else UNKNOWN
        if columns.has_own:
            by_name |= _own(call, pair, task)
        row[1].cells = list(columns.cells(by_name))
        result.append(row[1])
    return result


def _row(call: Call, pair: ParameterRow, task: Task) -> tuple[dict[str, Cell], Row]:
    one = pair.npu or pair.bench
    assert one is not None
    cells: dict[str, Cell] = {
        names.MESSAGE: "",
        "NPU Name": _name(call.npu_name, pair.npu, task),
        "Bench Name": _name(call.bench_name, pair.bench, task),
        "NPU Dtype": _dtype(pair.npu),
        "Bench Dtype": _dtype(pair.bench),
        "NPU Tensor Shape": _shape(pair.npu),
        "Bench Tensor Shape": _shape(pair.bench),
        "NPU Requires_grad": _requires_grad(pair.npu),
        "Bench Requires_grad": _requires_grad(pair.bench),
    }
    is_pair = pair.npu is not None and pair.bench is not None
    flags = cells["NPU Requires_grad"], cells["Bench Requires_grad"]
    differs = is_pair and flags[0] != flags[1] and UNKNOWN not in flags
    is_told = is_pair and (flags[0] == flags[1] or differs)
    cells[names.CONSISTENT] = str(not differs) if is_told else UNKNOWN
    row = Row([], one.section, is_bad=False, differs_in_grad=differs)
    if task is Task.MD5:
        _checksums(cells, row, pair)
        return cells, row
    values = _statistics(pair.npu)
    cells |= zip(names.STATISTICS, (*values, *_statistics(pair.bench)), strict=True)
    if pair.npu is not None and values is not pair.npu.statistics:  # those are all finite
        row.overflows = any(
            value is not None and not isfinite(value) for value in pair.npu.statistics[:2]
        )
    if pair.comparison is not None:
        cells[names.MESSAGE] = pair.comparison.note
    if task is Task.TENSOR:
        _data(cells, row, pair)
    else:
        _differences(cells, row, pair)
    return cells, row


def _name(call: str, parameter: Parameter | None, task: Task) -> str:
    if parameter is None:
        return UNKNOWN
    if task is Task.TENSOR and parameter.file:
        return parameter.file.rpartition(".")[0]
    if call.endswith(saved_values.ENDING):
        return saved_values.name_of(call, parameter.name)
    if parameter.section == Section.PARAMETERS_GRAD and call.endswith(".parameters_grad"):
        return f"{call}.{parameter.name.removeprefix('parameters_grad.')}"
    return f"{call}.{parameter.name}"


def _is_none(parameter: Parameter) -> bool:
    return parameter.value is None and not parameter.type


def _is_scalar(parameter: Parameter) -> bool:
    return parameter.value is not None or not parameter.dtype


def _dtype(parameter: Parameter | None) -> str:
    if parameter is None:
        return UNKNOWN
    if not _is_scalar(parameter):
        return parameter.dtype
    if _is_none(parameter):
        return "None"
    known = parameter.type if parameter.type in ("int", "float", "bool") else "str"
    return f"<class '{known}'>"


def _shape(parameter: Parameter | None) -> str:
    if parameter is None:
        return UNKNOWN
    if not _is_scalar(parameter):
        return parameter.shape
    if _is_none(parameter):
        return "None"
    return (parameter.value or "[]") if parameter.type == "torch.Size" else "[]"


def _requires_grad(parameter: Parameter | None) -> str:
    if parameter is None or parameter.requires_grad is None:
        return UNKNOWN  # MindSpore does not record it
    return str(parameter.requires_grad)


def _statistics(parameter: Parameter | None) -> tuple[Cell, ...]:
    if parameter is None:
        return (UNKNOWN,) * 4
    if _is_scalar(parameter):
        return (_scalar(parameter),) * 4
    if parameter.dtype.endswith("bool"):
        return tuple(_truth(value) for value in parameter.statistics)
    known = parameter.statistics
    if None not in known and isfinite(sum(known)):  # type: ignore[arg-type]
        return known  # type: ignore[return-value]
    return tuple(_number(value) for value in parameter.statistics)


def _scalar(parameter: Parameter) -> Cell:
    number = _as_number(parameter)
    return (parameter.value or "None") if number is None else _number(number)


def _as_number(parameter: Parameter) -> float | int | None:
    """A number that was passed; None for everything else."""
    if parameter.value is None:
        return None
    try:
        if parameter.type == "int":
            return int(parameter.value)
        return float(parameter.value) if parameter.type == "float" else None
    except (ValueError, OverflowError):
        return None


def _number(value: float | None) -> Cell:
    """A number, or a text for what no spreadsheet has: Nan, inf and -inf."""
    if value is None:
        return "None"
    if isfinite(value):
        return value
    return _NOT_A_NUMBER if isnan(value) else str(float(value))


def _truth(value: float | None) -> Cell:
    return "None" if value is None else str(bool(value))


def _checksums(cells: dict[str, Cell], row: Row, pair: ParameterRow) -> None:
    sums = []
    for column, parameter in (("NPU MD5", pair.npu), ("BENCH MD5", pair.bench)):
        found = UNKNOWN
        if parameter is not None and _is_scalar(parameter) and not _is_none(parameter):
            found = format(zlib.crc32((parameter.value or "").encode()), "08x")
        elif parameter is not None and parameter.md5:
            found = parameter.md5
        cells[column] = found
        sums.append(found)
    if pair.npu is None or pair.bench is None:
        cells[names.RESULT] = UNKNOWN
        return
    cells[names.RESULT] = PASS if sums[0] == sums[1] else DIFFERENT
    row.is_bad = sums[0] != sums[1]


def _pairs(pair: ParameterRow) -> tuple[tuple[float | None, float | None], ...]:
    """The four statistics of both sides as numbers; None where a side has none."""
    sides = []
    for parameter in (pair.npu, pair.bench):
        if parameter is None or parameter.dtype.endswith("bool"):
            return _NO_NUMBERS
        number = _as_number(parameter)
        sides.append(parameter.statistics if number is None else (float(number),) * 4)
    return tuple(zip(*sides, strict=True))


def _differences(cells: dict[str, Cell], row: Row, pair: ParameterRow) -> None:
    pairs = _pairs(pair)
    if pairs is _NO_NUMBERS:
        cells.update(_NO_DIFFERENCES)
        cells[names.RESULT] = UNKNOWN if pair.npu is None or pair.bench is None else ""
        return
    known = []
    differences: list[Cell] = []
    relatives: list[Cell] = []
    for npu, bench in pairs:
        if npu is None or bench is None:
            differences.append(UNKNOWN)
            relatives.append(UNKNOWN)
        elif npu == bench and bench and isfinite(bench):  # as most are
            differences.append(0.0)
            relatives.append("0.0%")
        else:
            value = npu - bench
            known.append((npu, bench))
            differences.append(value if isfinite(value) else _number(value))
            relatives.append(_relative(value, bench))
    cells |= zip(names.DIFFERENCES, differences, strict=True)
    cells |= zip(names.RELATIVE_ERRORS, relatives, strict=True)
    npu, bench = pairs[0]
    if npu is not None and bench is not None:
        row.largest = abs(npu - bench)
        row.relative = row.largest / abs(bench) if bench else None
    is_changed = documented_result(known)
    cells[names.RESULT] = WARNING if is_changed else ""
    if pair.npu is None or pair.bench is None:
        cells[names.RESULT] = UNKNOWN
    elif is_changed:
        cells[names.MESSAGE] = " ".join(filter(None, (_CHECK, str(cells.get(names.MESSAGE, "")))))
    row.is_bad = is_changed


def _relative(difference: float, bench: float) -> Cell:
    """In percent as text; no number where there is nothing to divide by."""
    if isnan(difference):
        return _NOT_A_NUMBER
    if bench == 0:
        return UNKNOWN
    value = abs(difference / bench) * 100
    return _NOT_A_NUMBER if isnan(value) else f"{value}%"


def _data(cells: dict[str, Cell], row: Row, pair: ParameterRow) -> None:
    files = [
        side.file if side is not None and side.file else "-1" for side in (pair.npu, pair.bench)
    ]
    cells[names.DATA] = str(files)
    metrics = _tensor_metrics(pair.comparison)
    if pair.npu is not None and pair.bench is not None:
        shapes = pair.npu.shape, pair.bench.shape
        if pair.comparison is not None and shapes[0] != shapes[1] and "-1" not in files:
            metrics = ["shape unmatched"] * len(metrics)
        elif pair.comparison is None and not _is_scalar(pair.npu):
            metrics = [UNKNOWN] * len(metrics)
        elif _is_zero(pair.npu) != _is_zero(pair.bench):
            metrics[0] = _NOT_A_NUMBER  # zeros have no direction
        elif pair.npu.shape in _WITHOUT:
            metrics = [
                _UNSUPPORTED if place in _WITHOUT[pair.npu.shape] else metric
                for place, metric in enumerate(metrics)
            ]
    cells |= zip(names.TENSOR_ERRORS.values(), metrics, strict=True)
    cells[names.ACCURACY] = documented_accuracy(metrics[0], metrics[2])
    if pair.npu is None or pair.bench is None:
        cells[names.ACCURACY] = UNKNOWN
    elif "-1" in files and not cells.get(names.MESSAGE):
        cells[names.MESSAGE] = "There is no data file."
    row.is_bad = cells[names.ACCURACY] == "No"
    row.cosine, row.largest, row.ratio = (_finite(metrics[place]) for place in (0, 2, 4))


def _is_zero(parameter: Parameter) -> bool:
    return parameter.statistics[:2] == (0, 0)


def _tensor_metrics(comparison: Comparison | None) -> list[Cell]:
    if comparison is None:
        return [_UNSUPPORTED] * len(names.TENSOR_ERRORS)
    result: list[Cell] = []
    for name in names.TENSOR_ERRORS:
        value = comparison.metrics[METRICS.index(name)]
        if value is None:
            result.append(_UNSUPPORTED)
        elif isnan(value):
            result.append(_NOT_A_NUMBER)
        elif isinf(value):
            result.append(str(value))
        elif name == "cosine":
            result.append(round(value, 6 if value > 0.9999 else 12))
        elif name in ("max_abs_err", "max_elementwise_relative_err"):
            result.append(round(value, 12))
        else:
            result.append(value)
    return result


def _finite(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) and isfinite(cell) else None


def _own(call: Call, pair: ParameterRow, task: Task) -> dict[str, Cell]:
    one = pair.npu or pair.bench
    assert one is not None
    if task is Task.TENSOR:
        corrected = corrected_accuracy(pair)
    elif task is Task.MD5:
        corrected = UNKNOWN if pair.comparison is None else _same(pair.comparison)
    else:
        corrected = corrected_result(pair)
    error = None if pair.comparison is None else pair.comparison.error
    return {
        "Corrected Result": corrected,
        "Error": UNKNOWN if error is None else error,
        "Grade": call.grade,
        "Role": call.role or UNKNOWN,
        "Times Expected": UNKNOWN if call.times_expected is None else call.times_expected,
        "Section": section_word(one.section),
        "Order": call.order,
        names.MERGED[0]: _merged(pair.npu, call.npu_ranks),
        names.MERGED[1]: _merged(pair.bench, call.bench_ranks),
        **_group(call),
    }


def _group(call: Call) -> dict[str, Cell]:
    """The group that a call belongs to, by the calls of the other side."""
    group = call.group
    if group is None:
        return dict.fromkeys(("Group", "Group Error", "Group Grade"), UNKNOWN)
    others = group.bench if call.npu_name else group.npu
    return {
        "Group": f"{group.operation}: {others}",
        "Group Error": UNKNOWN if group.error is None else _number(group.error),
        "Group Grade": group.grade,
    }


def _merged(parameter: Parameter | None, ranks: tuple[int, ...]) -> str:
    """How a merged value was made and of which ranks; without a recipe one's record is shown."""
    if parameter is None or not (parameter.recipe or ranks):
        return UNKNOWN
    if len(ranks) == 1:
        return parameter.recipe or f"as recorded on rank {ranks[0]}"
    listed = ", ".join(map(str, ranks))
    return parameter.recipe or f"as recorded on one of ranks {listed}"


def _same(comparison: Comparison) -> str:
    return {True: PASS, False: DIFFERENT, None: UNKNOWN}[comparison.md5_equal]
