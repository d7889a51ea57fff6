"""Real data: the errors of all pairs of tensors, read from their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from math import inf, isnan, prod

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import SKETCH_METRICS, SLICES, TENSOR_METRICS
from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.options import CPU
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.comparison import Apart, Metric, RealData, not_compared
from msprobe_builder.metrics.device import Computer, computer
from msprobe_builder.metrics.elementwise import TensorErrors, tensor_errors
from msprobe_builder.metrics.joined import Readable, file_names, open_row
from msprobe_builder.metrics.pairing import Pairs
from msprobe_builder.metrics.replicas import DISAGREE, Copy, copies_apart
from msprobe_builder.metrics.spread import Spread, spread
from msprobe_builder.metrics.tensor_file import TensorFileError, pieces, require_torch

# Below this many elements a pair costs mostly Python time, which threads cannot share.
_LARGE = 1 << 18
_OF_DIFFERENCE = SKETCH_METRICS[1:]

_MESSAGES = {
    "missing": fact("note.tensor_missing"),
    "unsaved": fact("note.tensor_unsaved"),
    "denied": fact("note.tensor_denied"),
    "refused": fact("note.tensor_refused"),
    "unreadable": fact("note.tensor_unreadable"),
    "shape": fact("note.tensor_shape"),
    "unmerged": fact("note.tensor_unmerged"),
}
# A tensor whose order of elements is not known was compared in each order that it may have.
_ANY_ORDER = fact("pair.order")


@dataclass(frozen=True)
class _Problem:
    code: str
    subject: str
    reason: Fact | str
    side: int | None

    @property
    def note(self) -> Fact:
        """Why the pair was not compared."""
        return not_compared(self.code, self.side, self.reason)


def compare_real_data(
    npu: Side,
    bench: Side,
    pairs: Pairs,
    limit: NDArray[np.float64],
    threads: int,
    device: str = CPU,
) -> RealData:
    """Errors of all pairs; at most two tensors per thread are open at a time.

    Where and how a pair differs is told beyond its ``limit`` of the relative difference.

    BuildError when there is no such ``device``.
    """
    on = computer(device)
    for side, rows in ((npu, pairs.npu), (bench, pairs.bench)):
        if any(name.endswith(".pt") for row in rows.tolist() for name in file_names(side, row)):
            require_torch(side.dump.directory)
    values = np.full((len(TENSOR_METRICS), len(pairs)), np.nan)
    norms = bench.table.statistics[3, pairs.bench]
    difference = np.full((len(_OF_DIFFERENCE), len(pairs)), np.nan)
    where = Apart(np.zeros((len(pairs), 2 * SLICES), dtype=np.uint8), {})
    problems: dict[int, _Problem] = {}
    any_order: set[int] = set()
    apart: tuple[dict[int, list[Copy]], dict[int, list[Copy]]] = ({}, {})

    def compare(position: int) -> None:
        rows = int(pairs.npu[position]), int(pairs.bench[position])
        found = _compare(npu, bench, *rows, on, float(norms[position] * limit[position]))
        if isinstance(found, _Problem):
            problems[position] = found
        else:
            values[:, position] = astuple(found.errors)
            distance, norm = found.errors.euclidean_distance, norms[position]
            with np.errstate(all="ignore"):
                relative = 0.0 if distance == 0 else np.float64(distance) / norm
            difference[0, position] = relative
            if found.spread is not None:
                one = found.spread
                difference[:, position] = one.relative, one.factor_share, one.offset_share
                where.slices[position] = one.slices
                if one.said:
                    where.said[position] = one.said
            if found.any_order:
                any_order.add(position)
        for number, (side, row) in enumerate(zip((npu, bench), rows, strict=True)):
            copies = copies_apart(side, row)
            if copies:
                apart[number][row] = copies

    _run(compare, npu.table.numel[pairs.npu] >= _LARGE, threads)
    known = np.ones(len(pairs), dtype=bool)
    known[list(problems)] = False
    return RealData(
        metrics={name: Metric(row, known) for name, row in zip(TENSOR_METRICS, values, strict=True)}
        | {
            name: Metric(row, known if name == _OF_DIFFERENCE[0] else known & ~np.isnan(row))
            for name, row in zip(_OF_DIFFERENCE, difference, strict=True)
        },
        notes=dict.fromkeys(any_order, _ANY_ORDER)
        | {position: problem.note for position, problem in problems.items()},
        diagnostics=_diagnostics(problems[position] for position in sorted(problems))
        + _drift((npu, bench), apart),
        apart=apart,
        difference=where,
    )


def _run(compare: Callable[[int], None], is_large: NDArray[np.bool_], threads: int) -> None:
    """Large pairs in threads, which read and calculate side by side; small ones here meanwhile."""
    large = np.flatnonzero(is_large).tolist()
    small = np.flatnonzero(~is_large).tolist()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        try:
            running = [pool.submit(compare, position) for position in large]
            for position in small:
                compare(position)
            for future in running:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass(frozen=True)
class _Found:
    errors: TensorErrors
    any_order: bool
    spread: Spread | None  # None of tensors that hardly differ


def _compare(
    npu: Side, bench: Side, npu_row: int, bench_row: int, on: Computer, near: float
) -> _Found | _Problem:
    """Errors of a pair, and where it differs if its distance is more than ``near``."""
    opened: list[list[Readable]] = []
    for number, (side, row) in enumerate(((npu, npu_row), (bench, bench_row))):
        try:
            opened.append(open_row(side, row))
        except TensorFileError as error:
            return _Problem(error.code, _subject(side, row), error.reason, number)
    n, b = opened[0][0], opened[1][0]
    if n.shape != b.shape:
        reason = fact("pair.shapes", npu=str(list(n.shape)), bench=str(list(b.shape)))
        return _Problem("shape", _subject(npu, npu_row), reason, None)
    orders = [(one, other) for one in opened[0] for other in opened[1]]
    try:
        found = [_errors(*pair, on) for pair in orders]
        best = max(
            range(len(found)),
            key=lambda one: (
                found[one].one_thousandth_ratio,
                -_known(found[one].euclidean_distance),
            ),
        )
        is_off = near < found[best].euclidean_distance < inf
        told = _spread(*orders[best]) if is_off else None
    except (RuntimeError, MemoryError, OSError) as error:
        return _Problem("unreadable", _subject(npu, npu_row), f"{type(error).__name__}", None)
    return _Found(found[best], len(orders) > 1, told)


def _spread(n: Readable, b: Readable) -> Spread:
    found = ((n.piece(index), b.piece(index)) for index in pieces(n.shape))
    return spread(n.shape, found)


def _errors(n: Readable, b: Readable, on: Computer) -> TensorErrors:
    cut = pieces(n.shape, on.piece)
    spaces = np.empty((2, min(prod(n.shape), on.piece)))
    found = ((n.piece(index, spaces[0]), b.piece(index, spaces[1])) for index in cut)
    return tensor_errors(found, on.part_of)


def _known(distance: float) -> float:
    return inf if isnan(distance) else distance


def _subject(side: Side, row: int) -> str:
    return side.table.file.get(row) or side.tree.names[int(side.table.node[row])]


def _drift(sides: tuple[Side, Side], apart: Sequence[Mapping[int, list[Copy]]]) -> list[Diagnostic]:
    found = []
    for number, side in enumerate(sides):
        names = [_subject(side, row) for row in sorted(apart[number])]
        found += [
            one.at(side=number) for one in about("warning", "replicas_disagree", names, DISAGREE)
        ]
    return found


def _diagnostics(problems: Iterable[_Problem]) -> list[Diagnostic]:
    subjects: dict[tuple[str, int | None], list[str]] = {}
    for problem in problems:
        subjects.setdefault((problem.code, problem.side), []).append(problem.subject)
    return [
        replace(one, side=side)
        for (code, side), names in subjects.items()
        for one in about("warning", f"tensor_{code}", names, _MESSAGES[code])
    ]
