"""What two dumps say themselves of how far calls are apart, held against what a verdict says.

Calculated here from the numbers in dump.json, one plain rule for all tensors, so that it knows
nothing of masks, other precisions and what they are worth: a size is known but for a factor.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import CallRole

# Mean and norm hide of rounding what it does to single elements, which a verdict makes up for.
MOST, ROUNDED = 8.0, 0.01
WORST = 1000.0  # nothing is told to be off by more
_STATISTICS = ("Max", "Min", "Mean", "Norm")


def wrong_sizes(connection: sqlite3.Connection, apart: Mapping[str, list[float]]) -> Iterator[str]:
    """Errors of calls that their ``distances`` contradict, a line each."""
    for name, shown in connection.execute(
        "SELECT name, shown FROM role JOIN node_name USING (node_id) WHERE shown IS NOT NULL"
    ):
        sizes = apart.get(name)  # one of them is told, the worst by what was expected
        if sizes and not min(*sizes, WORST) * (1 - ROUNDED) <= shown <= max(sizes) * MOST * (
            1 + ROUNDED
        ):
            yield f"the error of {name} is {shown:.3g}, by its numbers {max(sizes):.3g}"


def wrong_roles(
    connection: sqlite3.Connection, apart: Mapping[str, list[float]], told_from: float
) -> Iterator[str]:
    """Calls that differ by more than ``told_from`` and are clean."""
    rows = connection.execute("SELECT name, role FROM role JOIN node_name USING (node_id)")
    roles = dict(rows.fetchall())
    for name, sizes in apart.items():
        size, role = max(sizes), roles.get(name, CallRole.CLEAN)
        if size > told_from and role == CallRole.CLEAN:
            yield f"{name} is clean, and off by {size:.3g}"


def distances(connection: sqlite3.Connection, npu: Path, bench: Path) -> dict[str, list[float]]:
    """How far all that a call puts out is from its partner's; only where all of it has numbers."""
    pairs = connection.execute(
        "SELECT npu.name, bench.name FROM match"
        " JOIN node_name AS npu ON npu.node_id = npu_node"
        " JOIN node_name AS bench ON bench.node_id = bench_node"
    ).fetchall()
    one, other = _calls(npu), _calls(bench)
    found: dict[str, list[float]] = {}
    for name, partner in pairs:
        both = list(_outputs(one.get(name))), list(_outputs(other.get(partner)))
        if both[0] and len(both[0]) == len(both[1]):
            sizes = [_distance(*tensors) for tensors in zip(*both, strict=True)]
            found[name] = [size for size in sizes if size is not None]
            if len(found[name]) < len(sizes):
                del found[name]
    return found


def _calls(folder: Path) -> dict[str, Any]:
    """All records of a run of one step and rank, by name."""
    [path] = folder.rglob("dump.json")
    records: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["data"]
    return records


def _outputs(record: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(record, dict):  # our own collector writes what a backward call makes beside it
        record = record.get("input_gradients", record.get("output", record))
    if isinstance(record, list):
        for one in record:
            yield from _outputs(one)
    elif isinstance(record, dict) and "dtype" in record:
        yield record
    elif isinstance(record, dict) and "type" not in record:
        for one in record.values():
            yield from _outputs(one)


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """The largest share of its size by which a statistic is off; None where one tells nothing."""
    if not all(_is_told(tensor) for tensor in (one, other)):
        return None
    largest, norm = max(abs(other["Max"]), abs(other["Min"])), other["Norm"]
    if one["Max"] == one["Min"] and other["Max"] == other["Min"]:
        return None  # of one number everywhere mean and norm say nothing more
    root = norm / math.sqrt(math.prod(other["shape"]) or 1)
    sizes = zip(_STATISTICS, (largest, largest, root, norm), strict=True)
    apart: list[float] = [abs(one[name] - other[name]) / size for name, size in sizes]
    return max(apart)


def _is_told(tensor: Mapping[str, Any]) -> bool:
    """Whether its statistics are numbers, of a size, and none of them fills a mask."""
    values = [tensor.get(name) for name in _STATISTICS]
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    is_filled = any(abs(value) > 1e4 for value in numbers)
    return len(numbers) == len(_STATISTICS) and numbers[3] > 0.0 and not is_filled
