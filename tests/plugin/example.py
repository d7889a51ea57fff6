"""A small comparison written row by row, so that every answer can be worked out by hand.

Step 0, rank 0 has both sides, step 1, rank 0 both with other numbers, step 1, rank 2 only npu.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from math import inf
from pathlib import Path

import numpy as np

from msprobe_builder.database.migrations import lay_out
from msprobe_builder.database.trends.open import STATISTICS
from msprobe_builder.database.trends.write import Target, TrendWriter

REPOSITORY = Path(__file__).resolve().parents[2]

TEXTS = {
    1: "DefaultModel",
    2: "Module.model.Net",
    3: "Module.model.fc.Linear",
    4: "Functional.linear",
    5: "Torch.fused",
    6: "Apis_Between_Modules.0",
    7: "Tensor.add",
    8: "Torch.softmax",
    20: "input.0",
    21: "input.1",
    22: "input.bias",
    23: "output.0",
    24: "input.extra",
    25: "parameters.weight",
    26: "parameters_grad.weight",
    30: "torch.Tensor",
    31: "torch.float32",
    32: "[2, 3]",
    33: "None",
    34: "bool",
    35: "True",
    40: "/home/me/train.py",
    41: "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py",
    42: "/usr/lib/python3.11/threading.py",
    43: "<frozen runpy>",
    44: "forward",
    45: "y = self.fc(x)",
    46: "something else entirely",
    50: "shapes differ",
}

# node_id, graph_id, parent_id, subtree_end, kind, stem_id, direction, call, micro_step,
# is_recompute, stack_id, error, grade, overflow
NODES = [
    (11, 1, None, 17, 0, 1, 0, None, 0, 0, None, None, 0, None),
    (12, 1, 11, 15, 0, 2, 1, 0, 0, 0, 1, 0.25, 2, None),
    (13, 1, 12, 14, 0, 3, 1, 0, 0, 1, 1, 0.0, 1, None),
    (14, 1, 13, 14, 1, 4, 1, 3, 0, 0, 1, 1.0, 5, 3),
    (15, 1, 12, 15, 1, 5, 1, 0, 0, 0, None, None, 6, None),
    (16, 1, 11, 17, 2, 6, 0, None, 1, 0, None, None, 6, None),
    (17, 1, 16, 17, 1, 7, 2, 2, 1, 0, None, 0.5, 3, 1),
    (101, 2, None, 106, 0, 1, 0, None, 0, 0, None, None, 0, None),
    (102, 2, 101, 105, 0, 2, 1, 0, 0, 0, None, None, 0, None),
    (103, 2, 102, 104, 0, 3, 1, 0, 0, 0, None, None, 0, None),
    (104, 2, 103, 104, 1, 4, 1, 3, 0, 0, 2, None, 0, None),
    (105, 2, 102, 105, 1, 8, 1, 0, 0, 0, None, None, 6, None),
    (106, 2, 101, 106, 1, 7, 2, 1, 1, 0, None, None, 0, None),
    (201, 3, None, 202, 0, 1, 0, None, 0, 0, None, None, 0, None),
    (202, 3, 201, 202, 0, 2, 1, 0, 0, 0, None, 0.75, 4, None),
    (203, 4, None, 204, 0, 1, 0, None, 0, 0, None, None, 0, None),
    (204, 4, 203, 204, 0, 2, 1, 0, 0, 0, None, None, 0, None),
    (205, 5, None, 206, 0, 1, 0, None, 0, 0, None, None, 6, None),
    (206, 5, 205, 206, 0, 2, 1, 0, 0, 0, None, None, 6, None),
]
GRAPHS = [
    (1, 0, 0, 0, 11, 7, 2, "mix", "pytorch", "/npu", None),
    (2, 1, 0, 0, 101, 6, 2, "mix", "pytorch", "/bench", None),
    (3, 0, 1, 0, 201, 2, 1, "mix", "pytorch", "/npu", None),
    (4, 1, 1, 0, 203, 2, 1, "mix", "pytorch", "/bench", None),
    (5, 0, 1, 2, 205, 2, 1, "mix", "pytorch", "/npu", None),
]
# node_id, worst_grade, worst_overflow, ungraded … unmatched below
ROLLUPS = [
    (11, 5, 3, 0, 1, 1, 1, 0, 1, 2),
    (101, 0, None, 4, 0, 0, 0, 0, 0, 1),
    (201, 4, None, 0, 0, 0, 0, 1, 0, 0),
    (205, 0, None, 0, 0, 0, 0, 0, 0, 1),
]
MATCHES = [(11, 101, 0), (12, 102, 0), (13, 103, 0), (14, 104, 0), (17, 106, 1)]
MATCHES += [(201, 203, 0), (202, 204, 3)]
UNMATCHED = [(15, 1, 105, "shapes differ"), (16, 2, None, None), (105, 1, 15, None)]
UNMATCHED += [(205, 2, None, None), (206, 2, None, None)]
# node_id, ordinal, section, name, type, dtype, shape, requires_grad, max, min, mean, norm, nan
TENSORS = [
    (13, 0, 0, 20, 30, 31, 32, 0, 1.0, -1.0, 0.0, 2.0, 0),
    (13, 1, 1, 23, 30, 31, 32, 1, 4.0, -4.0, 0.5, 8.0, 0),
    (13, 2, 2, 25, 30, 31, 32, 1, 3.0, -3.0, 0.0, 6.0, 0),
    (13, 3, 3, 26, 30, 31, 32, None, 0.1, -0.1, 0.0, 0.2, 0),
    (14, 0, 0, 20, 30, 31, 32, 0, 1.5, -1.5, 0.25, 2.5, 0),
    (14, 1, 0, 21, 30, 31, 32, 0, 1.0, -inf, None, inf, 4),
    (14, 3, 1, 23, 30, 31, 32, 1, None, None, None, None, 5),
    (104, 0, 0, 20, 30, 31, 32, 0, 1.0, -1.0, 0.25, 2.0, 0),
    (104, 1, 0, 21, 30, 31, 32, 0, 1.0, -inf, None, inf, 4),
    (104, 2, 1, 23, 30, 31, 32, 0, 2.0, -2.0, 0.5, 4.0, 0),
    (104, 4, 0, 24, 30, 31, 32, 0, 9.0, -9.0, 0.0, 9.0, 0),
]
ARGUMENTS = [(14, 2, 0, 22, 33, None), (104, 3, 0, 22, 34, 35)]
# npu_node, npu_ordinal, bench_ordinal, max_diff, norm_diff, max_relative_err, cosine, error, nan
COMPARISONS = [
    (14, 0, 0, 0.5, 0.5, 0.5, None, None, 0, None),
    (14, 1, 1, 0.0, None, 0.0, None, None, 8, None),
    (14, 3, 2, None, None, None, 0.99, 1.0, 0b1_0000_1001, 50),
]
FRAMES = [
    (1, 40, 7, 44, 45),
    (2, 41, 1234, 44, None),
    (3, 42, 12, None, None),
    (4, 43, 9, None, None),
    (5, None, None, None, 46),
]
STACKS = [(1, 0, 2), (1, 1, 1), (1, 2, 3), (1, 3, 4), (2, 0, 5)]
GRADES = [
    (0, "ungraded", None, None, "#ffffff"),
    (1, "ok", 0.0, 0.2, "#000001"),
    (2, "slight", 0.2, 0.4, "#000002"),
    (3, "moderate", 0.4, 0.6, "#000003"),
    (4, "serious", 0.6, 0.8, "#000004"),
    (5, "severe", 0.8, 1.0, "#000005"),
    (6, "unmatched", None, None, "#c7c7c7"),
]
META = {
    "kind": "compare",
    "task": "statistics",
    "npu_path": "/runs/npu",
    "bench_path": "/runs/bench",
    "created_at": "2026-01-02T03:04:05+00:00",
    "overflow_checked": "1",
}


def write_example(path: Path) -> Path:
    """Write the comparison to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")
    lay_out(database)
    insert = database.executemany
    insert("INSERT INTO text VALUES (?, ?)", TEXTS.items())
    insert("INSERT INTO meta VALUES (?, ?)", META.items())
    insert("INSERT INTO grade VALUES (?, ?, ?, ?, ?)", GRADES)
    insert("INSERT INTO graph VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)", GRAPHS)
    insert("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", NODES)
    insert("INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", ROLLUPS)
    insert("INSERT INTO match (npu_node, bench_node, source) VALUES (?, ?, ?)", MATCHES)
    reasons = [(1, "no_such_name"), (2, "other_parent")]
    insert("INSERT INTO unmatched_reason VALUES (?, ?)", reasons)
    insert("INSERT INTO unmatched VALUES (?, ?, ?, ?)", UNMATCHED)
    insert(
        "INSERT INTO tensor VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
        TENSORS,
    )
    insert("INSERT INTO argument VALUES (?, ?, ?, ?, ?, ?)", ARGUMENTS)
    insert(
        "INSERT INTO comparison (npu_node, npu_ordinal, bench_ordinal, max_diff, norm_diff,"
        " max_relative_err, cosine, error, nan_flags, note_id) VALUES (?,?,?,?,?,?,?,?,?,?)",
        COMPARISONS,
    )
    insert("INSERT INTO frame VALUES (?, ?, ?, ?, ?)", FRAMES)
    insert("INSERT INTO stack VALUES (?, ?, ?)", STACKS)
    insert("INSERT INTO overflow_parameter VALUES (?, ?)", [(14, 3)])
    database.execute(
        "INSERT INTO diagnostic (severity, code, side, step, subject, count, message)"
        " VALUES ('warning', 'no_record', 1, 0, 'Torch.softmax.0.forward', 2, 'Nothing recorded.')"
    )
    database.commit()
    database.close()
    return path


def as_older_trend(path: Path) -> None:
    """Make a .trend.db what version 1 of it was: without the column of changes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP VIEW trend_view; ALTER TABLE value DROP COLUMN change; PRAGMA user_version = 1;"
        )


def write_example_trend(path: Path, ranks: int = 2, steps: int = 10) -> None:
    """A trend of two targets; the norm is 1 + step + 10 rank, and NaN of target 1 at step 7."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        writer = TrendWriter(connection)
        weight = writer.target(Target("weight", "layers.0.weight", "layers.0", None))
        activation = writer.target(Target("activation", "layers.0", "layers.0", None))
        for rank in range(ranks):
            step = np.repeat(np.arange(steps), 2)
            target = np.tile([weight, activation], steps)
            values = np.ones((2 * steps, len(STATISTICS)))
            values[:, 0] = 1 + step + 10 * rank
            values[(step == 7) & (target == activation), 0] = np.nan
            writer.values(rank, step, target, values)
        writer.finish({"kind": "monitor"})
