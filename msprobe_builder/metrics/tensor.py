"""Real data: the errors of all pairs of tensors, read from their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.diagnostics import Diagnostic, about
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.comparison import TENSOR_METRICS, Metric
from msprobe_builder.metrics.elementwise import TensorErrors, tensor_errors
from msprobe_builder.metrics.pairing import Pairs
from msprobe_builder.metrics.tensor_file import (
    StoredTensor,
    TensorFileError,
    open_tensor,
    pieces,
    require_torch,
)

# Below this many elements a pair costs mostly Python time, which threads cannot share.
_LARGE = 1 << 18

_MESSAGES = {
    "missing": "Tensor files are missing; these tensors were not compared.",
    "refused": "Tensor files have names that lead out of dump_tensor_data or are no tensors; "
    "they were not opened.",
    "unreadable": "Tensor files are damaged or hold no numbers; they were not compared.",
    "shape": "Tensors in the files differ in shape; they were not compared.",
}


@dataclass(frozen=True)
class RealData:
    """Errors of the pairs; a note says of each pair without them why there are none."""

    metrics: dict[str, Metric]
    notes: dict[int, str]  # by position among the pairs
    diagnostics: list[Diagnostic]


@dataclass(frozen=True)
class _Problem:
    code: str
    subject: str
    reason: str
    side: int | None


def compare_real_data(npu: Side, bench: Side, pairs: Pairs, threads: int) -> RealData:
    """Errors of all pairs; at most two tensors per thread are open at a time."""
    for side, rows in ((npu, pairs.npu), (bench, pairs.bench)):
        if any(side.table.file.get(row, "").endswith(".pt") for row in rows.tolist()):
            require_torch(side.dump.directory)
    values = np.full((len(TENSOR_METRICS), len(pairs)), np.nan)
    problems: dict[int, _Problem] = {}

    def compare(position: int) -> None:
        found = _compare(npu, bench, int(pairs.npu[position]), int(pairs.bench[position]))
        if isinstance(found, _Problem):
            problems[position] = found
        else:
            values[:, position] = astuple(found)

    _run(compare, npu.table.numel[pairs.npu] >= _LARGE, threads)
    known = np.ones(len(pairs), dtype=bool)
    known[list(problems)] = False
    return RealData(
        metrics={
            name: Metric(row, known) for name, row in zip(TENSOR_METRICS, values, strict=True)
        },
        notes={
            position: f"{problem.code}: {problem.reason}" for position, problem in problems.items()
        },
        diagnostics=_diagnostics(problems[position] for position in sorted(problems)),
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


def _compare(npu: Side, bench: Side, npu_row: int, bench_row: int) -> TensorErrors | _Problem:
    opened: list[StoredTensor] = []
    for number, (side, row) in enumerate(((npu, npu_row), (bench, bench_row))):
        name = side.table.file.get(row)
        try:
            opened.append(open_tensor(side.dump.tensor_dir, name))
        except TensorFileError as error:
            side_name = "npu" if number == 0 else "bench"
            node = side.tree.names[int(side.table.node[row])]
            return _Problem(error.code, name or node, f"{side_name}, {error.reason}", number)
    n, b = opened
    if n.shape != b.shape:
        reason = f"{list(n.shape)} and {list(b.shape)}"
        return _Problem("shape", npu.table.file[npu_row], reason, None)
    try:
        return tensor_errors((n.piece(index), b.piece(index)) for index in pieces(n.shape))
    except (RuntimeError, MemoryError, OSError) as error:
        return _Problem("unreadable", npu.table.file[npu_row], f"{type(error).__name__}", None)


def _diagnostics(problems: Iterable[_Problem]) -> list[Diagnostic]:
    subjects: dict[tuple[str, int | None], list[str]] = {}
    for problem in problems:
        subjects.setdefault((problem.code, problem.side), []).append(problem.subject)
    return [
        replace(one, side=side)
        for (code, side), names in subjects.items()
        for one in about("warning", f"tensor_{code}", names, _MESSAGES[code])
    ]
