"""From the values of a call to the cells of a table."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isinf, isnan
from typing import NamedTuple

from msprobe_builder.base.codes import METRICS, Section
from msprobe_builder.database.read.executed import Call
from msprobe_builder.database.read.parameters import Comparison, Parameter, ParameterRow
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import decode, fact, text_fact
from msprobe_builder.facts.wording import tell
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
_NO_DIFFERENCES = (UNKNOWN,) * len((*names.DIFFERENCES, *names.RELATIVE_ERRORS))
_EQUAL: tuple[Cell, ...] = (
    *(0.0 for _ in names.DIFFERENCES),
    *("0.0%" for _ in names.RELATIVE_ERRORS),
)
_FLAGS = {True: "True", False: "False", None: UNKNOWN}  # MindSpore does not record requires_grad
_CHECK = fact("table.check")


@dataclass(slots=True)
class Row:
    """The cells of one value in the order of the columns, and what marks need of it."""

    cells: list[Cell]
    section: int
    is_bad: bool  # by the documented verdict
    is_compared: bool = False  # both sides have something to compare
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
    result: list[Row] = []
    for pair in call.rows:
        row = _row(call, pair, task)
        if columns.has_stack:
            row.cells.append(UNKNOWN if result else stack)
        if task is Task.TENSOR:
            row.cells.append(str(_files(pair)))
        if columns.has_own:
            row.cells += _own(call, pair, task)
        result.append(row)
    return result


def _row(call: Call, pair: ParameterRow, task: Task) -> Row:
    """The documented columns but for stack and file, in the order of ``columns_of``."""
    npu, bench, comparison = pair
    one = npu or bench
    assert one is not None
    left = _look(npu)
    right = left if _look_alike(npu, bench) else _look(bench)
    differs, consistent = False, UNKNOWN
    if npu is not None and bench is not None:
        differs = left.flag != right.flag and UNKNOWN not in (left.flag, right.flag)
        if differs or left.flag == right.flag:
            consistent = _FLAGS[not differs]
    name = _name(call.npu_name, npu, task)
    is_same = right is left and call.npu_name == call.bench_name
    cells: list[Cell] = [
        name, name if is_same else _name(call.bench_name, bench, task),
        left.dtype, right.dtype, left.shape, right.shape, left.flag, right.flag,
    ]  # fmt: skip
    row = Row(cells, one.section, False, differs_in_grad=differs)
    if task is Task.MD5:
        _checksums(row, pair, consistent)
        return row
    if npu is not None and left.cells is not npu.statistics:  # those are all finite
        row.overflows = any(
            value is not None and not isfinite(value) for value in npu.statistics[:2]
        )
    message = "" if comparison is None else tell(decode(comparison.note))
    if task is Task.TENSOR:
        errors, verdict, message = _data(row, pair, message)
    else:
        errors, verdict, message = _differences(row, left, right, message)
    cells += errors
    cells += left.cells
    cells += right.cells
    cells += (consistent, verdict, message)
    return row


class _Look(NamedTuple):
    """A parameter as the columns of its side show it."""

    dtype: str
    shape: str
    flag: str  # whether a gradient is required
    cells: tuple[Cell, ...]  # the four statistics; ``numbers`` themselves where all are finite
    numbers: tuple[float | None, ...] | None  # those of what can be compared


_VALUES = slice(1, 11)  # of a Parameter: all but its ordinal and what was found out about it
_NOBODY = _Look(UNKNOWN, UNKNOWN, UNKNOWN, (UNKNOWN,) * 4, None)


def _look_alike(npu: Parameter | None, bench: Parameter | None) -> bool:
    """Whether equal names, files and values are known to show alike, as 0.0 and -0.0 do not."""
    return (
        npu is not None
        and bench is not None
        and npu[_VALUES] == bench[_VALUES]
        and 0 not in npu.statistics
    )


def _look(parameter: Parameter | None) -> _Look:
    if parameter is None:
        return _NOBODY
    flag = _FLAGS[parameter.requires_grad]
    if _is_scalar(parameter):
        return _look_of_scalar(parameter, flag)
    dtype, statistics = parameter.dtype, parameter.statistics
    if dtype.endswith("bool"):
        return _Look(dtype, parameter.shape, flag, tuple(map(_truth, statistics)), None)
    # The sum too: of few that are larger nothing is said.
    is_finite = None not in statistics and isfinite(sum(statistics))  # type: ignore[arg-type]
    cells = statistics if is_finite else tuple(map(_number, statistics))
    return _Look(dtype, parameter.shape, flag, cells, statistics)  # type: ignore[arg-type]


def _look_of_scalar(parameter: Parameter, flag: str) -> _Look:
    number = _as_number(parameter)
    cell = (parameter.value or "None") if number is None else _number(number)
    numbers = parameter.statistics if number is None else (float(number),) * 4
    if _is_none(parameter):
        return _Look("None", "None", flag, (cell,) * 4, numbers)
    known = parameter.type if parameter.type in ("int", "float", "bool") else "str"
    shape = (parameter.value or "[]") if parameter.type == "torch.Size" else "[]"
    return _Look(f"<class '{known}'>", shape, flag, (cell,) * 4, numbers)


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


def _as_number(parameter: Parameter) -> float | int | None:
    """A number that was passed; None for everything else."""
    if parameter.value is None:
        return None
    try:
        if parameter.type == "int":
            number = int(parameter.value)
            float(number)  # what no float holds is shown as text
            return number
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


def _checksums(row: Row, pair: ParameterRow, consistent: str) -> None:
    sums = []
    for parameter in (pair.npu, pair.bench):
        found = UNKNOWN
        if parameter is not None and _is_scalar(parameter) and not _is_none(parameter):
            found = format(zlib.crc32((parameter.value or "").encode()), "08x")
        elif parameter is not None and parameter.md5:
            found = parameter.md5
        sums.append(found)
    is_pair = pair.npu is not None and pair.bench is not None
    row.is_bad = is_pair and sums[0] != sums[1]
    row.is_compared = is_pair and UNKNOWN not in sums
    verdict = UNKNOWN if not is_pair else DIFFERENT if row.is_bad else PASS
    row.cells += (*sums, consistent, verdict)


# The cells of the differences, the verdict, and the message with what comes before it.
Compared = tuple[Sequence[Cell], str, str]


def _differences(row: Row, npu: _Look, bench: _Look, message: str) -> Compared:
    left, right = npu.numbers, bench.numbers
    if left is None or right is None:
        is_alone = npu is _NOBODY or bench is _NOBODY
        return _NO_DIFFERENCES, UNKNOWN if is_alone else "", message
    row.is_compared = any(None not in pair for pair in zip(left, right, strict=True))
    if npu is bench and npu.cells is left:
        row.largest = row.relative = 0.0
        return _EQUAL, "", message  # as many are
    differences: list[Cell] = []
    relatives: list[Cell] = []
    for own, other in zip(left, right, strict=True):
        if own is None or other is None:
            differences.append(UNKNOWN)
            relatives.append(UNKNOWN)
            continue
        difference = own - other
        differences.append(_number(difference))
        relatives.append(_relative(difference, other))
    if left[0] is not None and right[0] is not None:
        row.largest = abs(left[0] - right[0])
        row.relative = row.largest / abs(right[0]) if right[0] else None
    row.is_bad = documented_result(left, right)
    if row.is_bad:
        message = tell([_CHECK, text_fact(message)] if message else _CHECK)
    return (*differences, *relatives), WARNING if row.is_bad else "", message


def _relative(difference: float, bench: float) -> Cell:
    """In percent as text; no number where there is nothing to divide by."""
    if isnan(difference):
        return _NOT_A_NUMBER
    if bench == 0:
        return UNKNOWN
    value = abs(difference / bench) * 100
    return _NOT_A_NUMBER if isnan(value) else f"{value}%"


def _files(pair: ParameterRow) -> list[str]:
    return [side.file if side is not None and side.file else "-1" for side in pair[:2]]


def _data(row: Row, pair: ParameterRow, message: str) -> Compared:
    files = _files(pair)
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
    verdict = documented_accuracy(metrics[0], metrics[2])
    if pair.npu is None or pair.bench is None:
        verdict = UNKNOWN
    elif "-1" in files and not message:
        message = tell(fact("table.no_file"))
    row.is_bad = verdict == "No"
    row.is_compared = any(isinstance(metric, float) for metric in metrics)
    row.cosine, row.largest, row.ratio = (_finite(metrics[place]) for place in (0, 2, 4))
    return metrics, verdict, message


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


def _own(call: Call, pair: ParameterRow, task: Task) -> tuple[Cell, ...]:
    """In the order of ``columns.OWN``."""
    one = pair.npu or pair.bench
    assert one is not None
    if task is Task.TENSOR:
        corrected = corrected_accuracy(pair)
    elif task is Task.MD5:
        corrected = UNKNOWN if pair.comparison is None else _same(pair.comparison)
    else:
        corrected = corrected_result(pair)
    error = None if pair.comparison is None else pair.comparison.error
    return (
        corrected,
        UNKNOWN if error is None else error,
        *_sketched(pair.comparison),
        call.grade,
        call.role or UNKNOWN,
        UNKNOWN if call.times_expected is None else call.times_expected,
        section_word(one.section),
        call.order,
        *_group(call),
        _merged(pair.npu, call.npu_ranks),
        _merged(pair.bench, call.bench_ranks),
    )


def _sketched(comparison: Comparison | None) -> Iterator[Cell]:
    """In the order of ``columns.SKETCHED``."""
    for name in names.SKETCHED:
        value = None if comparison is None else comparison.metrics[METRICS.index(name)]
        yield UNKNOWN if value is None else _number(value)


def _group(call: Call) -> tuple[Cell, Cell, Cell]:
    """The group that a call belongs to, by the calls of the other side; its error and grade."""
    group = call.group
    if group is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    others = group.bench if call.npu_name else group.npu
    error = UNKNOWN if group.error is None else _number(group.error)
    return f"{group.operation}: {others}", error, group.grade


def _merged(parameter: Parameter | None, ranks: tuple[int, ...]) -> str:
    """How a merged value was made and of which ranks; without a recipe one's record is shown."""
    if parameter is None or not (parameter.recipe or ranks):
        return UNKNOWN
    if parameter.recipe:
        return tell(decode(parameter.recipe))
    if len(ranks) == 1:
        return tell(fact("table.as_on_rank", ranks=ranks))
    return tell(fact("table.as_on_ranks", ranks=ranks))


def _same(comparison: Comparison) -> str:
    return {True: PASS, False: DIFFERENT, None: UNKNOWN}[comparison.md5_equal]
