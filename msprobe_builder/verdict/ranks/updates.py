"""What an optimizer does to the parts of parameters that its rank has, told without their turn.

Sharded optimizers (ZeRO, ``ZeroRedundancyOptimizer``, Megatron's distributed one) go through other
parameters on each rank than the reference does, and through slices of flat buffers. What is paired
by its turn belongs to other parameters. Three things hold whatever the parts are. Every update is
made with numbers that the reference's are made with, too (learning rate, decay, betas), and with
all of them. A rank leaves out no kind of update. And a tensor that is as large as some of the
reference's, in the same function, has the values of one of these; what is of another size is a
slice, of which nothing was recorded that could be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.metrics.pairing import Pairs
from msprobe_builder.operators.operator import Kind as OperatorKind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import DOUBTED, Clue, Evidence
from msprobe_builder.verdict.model.runs import Runs

_SAME = 8e-6  # of a number that a script computed in single precision
_WRONG = 1e-2  # beyond what any summation does
_SMALL = 1e-3  # of the largest norm: what rounding may have left of a sum
_FOREACH = "_foreach_"
_SHOWN = 4
_FIRST = "input.0"  # what is written into

Kind = tuple[str, str, float]  # function, argument or output, elements


@dataclass(frozen=True)
class Updates:
    """What is known of a rank's updates where its parts are not the reference's.

    ``last`` is the node of the last backward pass, ``told`` says by side and node
    what was found; ``agreeing`` and ``uncompared`` count tensors.
    """

    last: int
    agreeing: int
    uncompared: int
    told: dict[tuple[int, int], Facts] = field(default_factory=dict)
    rows: dict[tuple[int, int], int] = field(default_factory=dict)

    def explains(self, evidence: Evidence, clue: Clue) -> bool:
        """Whether a clue stands behind the last pass, where calls are paired by their turn."""
        by_itself = clue.cause in (Cause.NUMBER, Cause.RANK, Cause.PART)  # each rank's own
        runs = evidence.runs
        at = int(runs.npu.table.node[clue.row]) if clue.row >= 0 else clue.node
        if clue.side and clue.row < 0:
            return not by_itself and clue.node > int(runs.bench.calls.last_pass)
        return at > self.last and bool(runs.npu.calls.is_api[at]) and not by_itself

    def clues(self) -> Iterable[Clue]:
        """What no turn explains."""
        for (side, node), told in self.told.items():
            yield Clue(DOUBTED, side, node, Cause.PART, self.rows.get((side, node), -1), told=told)

    def told_of_all(self) -> Fact:
        """What was compared of them, and what nobody could compare."""
        slices = fact("updates.slices", count=self.uncompared) if self.uncompared else None
        return fact("updates.of_parts", agreeing=self.agreeing, slices=slices)


@dataclass(frozen=True)
class _Side:
    """In-place calls behind the last backward pass: rows of tensors, and numbers, by function."""

    rows: dict[Kind, list[int]]
    numbers: dict[str, dict[float, list[int]]]  # by stem, with the nodes
    calls: dict[str, int]  # the first node of each function


def updates_of_parts(runs: Runs, provenance: Provenance | None, pairs: Pairs) -> Updates | None:
    """What the rank's updates show; None where it goes through what the reference does."""
    last = runs.npu.calls.last_pass
    if runs.npu.calls.direction[last] != Direction.BACKWARD:
        return None
    npu, bench = (
        _side(runs.npu, last, runs.texts),
        _side(runs.bench, runs.bench.calls.last_pass, runs.texts),
    )
    has_others = provenance is not None and provenance.replicas > 1
    if not (bench.calls and (has_others or works_on_other_parts(runs, pairs, last))):
        return None
    if not _are_other_parts(npu, bench):
        return None
    off, agreeing, uncompared = _by_value(runs, npu, bench)
    result = Updates(last, agreeing, uncompared)
    for node, told in _of_numbers(runs, npu, bench, is_vague=uncompared > 0 and not agreeing):
        _add(result, (0, node), -1, told)
    first = min((node for _, node in result.told), default=None)
    if off >= 0 and (first is None or int(runs.npu.table.node[off]) < first):
        name = runs.texts.values[runs.npu.table.name_id[off]]
        norm = float(runs.npu.table.statistics[3, off])
        told = fact("updates.unlike", name=name, norm=norm)
        _add(result, (0, int(runs.npu.table.node[off])), off, told)
    if lacking := sorted(bench.calls.keys() - npu.calls.keys()):
        told = fact("updates.never_called", functions=lacking[:_SHOWN])
        _add(result, (1, min(bench.calls[one] for one in lacking)), -1, told)
    return result


def _add(result: Updates, place: tuple[int, int], row: int, told: Fact) -> None:
    result.told[place] = (*result.told.get(place, ()), told)
    result.rows.setdefault(place, row)


def works_on_other_parts(runs: Runs, pairs: Pairs, last: int) -> bool:
    """Whether calls behind a node, the last pass, are given tensors of other sizes.

    An optimizer that shares parameters out over the ranks goes through flat parts of them: what is
    paired by its turn then belongs to other parameters.
    """
    table = runs.npu.table
    behind = table.is_tensor[pairs.npu] & (table.section[pairs.npu] == Section.INPUT)
    behind &= table.node[pairs.npu] > last
    sizes = table.numel[pairs.npu[behind]], runs.bench.table.numel[pairs.bench[behind]]
    known = ~np.isnan(sizes[0]) & ~np.isnan(sizes[1])
    return bool(np.any(known & (sizes[0] != sizes[1])))


def _are_other_parts(npu: _Side, bench: _Side) -> bool:
    """Whether most of the reference's functions are called for tensors of other sizes, or never.

    Gradients of all parameters may be averaged on each rank though it updates only some.
    """
    loops: tuple[dict[str, Counter[float]], ...] = {}, {}
    for loop, side in zip(loops, (npu, bench), strict=True):
        for (function, argument, elements), rows in side.rows.items():
            if argument == _FIRST:
                loop.setdefault(function, Counter())[elements] = len(rows)
    debug, reference = loops
    same = sum(debug.get(function) == sizes for function, sizes in reference.items())
    return len(reference) - same >= max(same, 1)


def _side(part: Part, last: int, texts: Texts) -> _Side:
    table, calls = part.table, part.calls
    operators = [stem.rpartition(".")[2] for stem in calls.stems]
    behind = np.flatnonzero(calls.is_forward_call)
    behind = behind[behind > last]
    names = {
        node: (calls.stems[stem], operators[stem].removeprefix(_FOREACH))
        for node, stem in zip(behind.tolist(), calls.stem[behind].tolist(), strict=True)
        if _is_update(operators[stem])
    }
    rows: dict[Kind, list[int]] = {}
    numbers: dict[str, dict[float, list[int]]] = {}
    first = int(np.searchsorted(table.node, last, side="right"))
    for row in range(first, len(table)):
        node = int(table.node[row])
        if node not in names:
            continue
        stem, function = names[node]
        if table.is_tensor[row]:
            if table.numel[row] > 1:
                argument = _argument(texts.values[table.name_id[row]], operators[calls.stem[node]])
                rows.setdefault((function, argument, float(table.numel[row])), []).append(row)
        elif table.section[row] == Section.INPUT and _text(texts, table.type_id[row]) == "float":
            number = float(_text(texts, table.value_id[row]) or "nan")
            numbers.setdefault(stem, {}).setdefault(number, []).append(node)
    first_calls: dict[str, int] = {}
    for node, (_, function) in names.items():
        first_calls.setdefault(function, node)
    return _Side(rows, numbers, first_calls)


# They write what no update made: a copy, a constant.
_NO_UPDATES = (OperatorKind.FILL, OperatorKind.SHAPE, OperatorKind.EMPTY)


def _is_update(operator: str) -> bool:
    """Whether a function writes into what it is given, as the names of torch's functions say."""
    if operator.endswith("__") or not operator.endswith("_"):
        return False
    return operator_of(operator.removeprefix(_FOREACH)).kind not in _NO_UPDATES


def _argument(name: str, operator: str) -> str:
    """The argument, or output, that a tensor is or, of a function over many, is a member of."""
    if not operator.startswith(_FOREACH):
        return name
    section, place = name.split(".")[:2]
    return f"{section}.{place if section == 'input' else 0}"


def _text(texts: Texts, place: int) -> str:
    return texts.values[place] if place >= 0 else ""


def _by_value(runs: Runs, npu: _Side, bench: _Side) -> tuple[int, int, int]:
    """The first row unlike all of the reference's, how many are like one, how many are slices."""
    table, reference = runs.npu.table, runs.bench.table
    off, agreeing, uncompared = [], 0, 0
    largest: dict[tuple[str, str], float] = {}
    for (function, argument, _), rows in npu.rows.items():
        size = float(np.nanmax(table.statistics[3, rows], initial=0.0))
        largest[function, argument] = max(size, largest.get((function, argument), 0.0))
    for kind, rows in npu.rows.items():
        if kind not in bench.rows:
            uncompared += len(rows)
            continue
        others = reference.statistics[:, bench.rows[kind]]
        for row in rows:
            debug = table.statistics[:, row]
            if not np.isfinite(debug).all() or debug[3] <= _SMALL * largest[kind[:2]]:
                continue
            if _nearest(debug, others) > _WRONG:
                off.append(row)
            else:
                agreeing += 1
    return min(off, default=-1), agreeing, uncompared


def _nearest(own: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """How far the most similar tensor is away, as a fraction of the own one's statistics."""
    size = np.array([*[np.abs(own[:2]).max()] * 3, own[3]])
    return float(np.nanmin((np.abs(others - own[:, None]) / size[:, None]).max(axis=0), initial=1))


def _of_numbers(
    runs: Runs, npu: _Side, bench: _Side, *, is_vague: bool
) -> Iterable[tuple[int, Fact]]:
    """Numbers that updates of one side alone are made with, at the first call of the function.

    That the rank lacks one of the reference's says nothing where it may not have the parameters:
    those of one group have decay, those of another have none. With ``is_vague`` it has slices of
    flat buffers alone, which are made of all.
    """
    for stem, debug in npu.numbers.items():
        reference = bench.numbers.get(stem)
        if reference is None:
            continue
        for number, nodes in debug.items():
            if not _has(reference, number):
                shown = list(reference)[:_SHOWN]
                yield nodes[0], fact("updates.given", own=number, theirs=shown)
        lost = [
            number
            for number, nodes in reference.items()
            if not _has(debug, number)
            and (is_vague or any(_has_parameter(runs, npu, node) for node in nodes))
        ]
        if lost:
            first = min(nodes[0] for nodes in debug.values())
            yield first, fact("updates.never_given", numbers=lost[:_SHOWN])


def _has(numbers: Iterable[float], wanted: float) -> bool:
    return any(abs(one - wanted) <= _SAME * max(abs(one), abs(wanted)) for one in numbers)


def _has_parameter(runs: Runs, npu: _Side, node: int) -> bool:
    """Whether the rank updates a tensor that a call of the reference is given."""
    table, reference = runs.npu.table, runs.bench.table
    rows = inputs_of(reference, node)
    rows = rows[reference.numel[rows] > 1]
    for (_, _, elements), debug in npu.rows.items():
        for row in rows.tolist():
            wanted = reference.statistics[:, row]
            if reference.numel[row] != elements or not wanted[3] > 0:
                continue
            if _nearest(wanted, table.statistics[:, debug]) < _SAME:
                return True
    return False
