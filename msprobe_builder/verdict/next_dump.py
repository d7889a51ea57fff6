"""What to record next to narrow a fault down: a configuration of the collector, and its size."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from msprobe_builder.base.codes import Direction, Kind

_NODE = """
SELECT node.parent_id, kind, direction, value AS stem, step, rank, level, side, node.node_id,
       subtree_end, node.graph_id, stem_id
FROM node JOIN graph USING (graph_id) JOIN text ON text_id = stem_id WHERE node.node_id = ?
"""
_TENSORS = """
SELECT shape.value, dtype.value, count(*) FROM tensor
LEFT JOIN text AS shape ON shape.text_id = shape_id
LEFT JOIN text AS dtype ON dtype.text_id = dtype_id
WHERE node_id BETWEEN ? AND ? GROUP BY shape_id, dtype_id
"""
# A name in the list takes all calls of the module, in both directions.
_CALLED = "SELECT node_id, subtree_end FROM node WHERE graph_id = ? AND stem_id = ? AND kind = ?"
_RECORD = 320  # bytes of a tensor's entry in dump.json
_CALL = 2000  # bytes of a call besides: its arguments, its place and its stack
_INSIDE = 12  # calls inside a module for each tensor at its edge, when they were not recorded
_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1}


def next_dump(connection: sqlite3.Connection, suspects: Sequence[int]) -> str | None:
    """JSON with a configuration for the collector and the bytes that it will write.

    The modules around the suspects are recorded with all their tensors; where the dump holds
    modules alone the calls inside come first, with statistics. None without suspects.
    """
    found: dict[str, tuple[int, int]] = {}  # modules: their graph, and the number of their stem
    steps, ranks, level = set(), set(), None
    for node in suspects:
        row = connection.execute(_NODE, (node,)).fetchone()
        if row is None:
            continue
        steps.add(row[4])
        ranks.add(row[5])
        level = level or row[6]
        while row is not None and not (row[1] == Kind.MODULE and row[2] != Direction.NONE):
            row = connection.execute(_NODE, (row[0],)).fetchone() if row[0] else None
        if row is not None:
            found.setdefault(f"{row[3]}.", (row[10], row[11]))
    if not steps:
        return None
    modules_only = level == "L0"
    task = "statistics" if modules_only else "tensor"
    details: dict[str, object] = {"list": sorted(found)} if found else {}
    config = {
        "task": task,
        "level": "mix",
        "dump_path": "./next_dump",
        "step": sorted(steps),
        "rank": sorted(ranks),
        task: details,
    }
    inner = [one for one in found if not any(_is_inside(one, other) for other in found)]
    size = sum(_size(connection, found[one], modules_only) for one in inner)
    return json.dumps({"config": config, "expected_bytes": size if found else None})


def _is_inside(name: str, other: str) -> bool:
    """Whether a module is called inside of another one of the list, which takes it along."""
    path, above = (one.rstrip(".").rpartition(".")[0] for one in (name, other))
    return path.startswith(f"{above}.")


def _size(connection: sqlite3.Connection, module: tuple[int, int], modules_only: bool) -> int:
    """Bytes of all calls of a module and of what is called inside."""
    total = 0
    for first, last in connection.execute(_CALLED, (*module, int(Kind.MODULE))).fetchall():
        calls = (last - first + 1) * _CALL
        for shape, dtype, count in connection.execute(_TENSORS, (first, last)):
            numel = 1
            for part in str(shape or "").strip("[]()").split(","):
                numel *= int(part) if part.strip().isdecimal() else 1
            width = next((size for bits, size in _BYTES.items() if bits in str(dtype)), 4)
            own = _RECORD * _INSIDE if modules_only else _RECORD + numel * width
            total += own * int(count)
        total += calls
    return total
