"""The files that the tasks of a user's day are solved on."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.browser.conftest import write_small_model
from tests.builder.small_dumps import forward, number, tensor, write_dump

STEPS, RANKS = 12, 64
BEGINS = (3, 17)


def write_one_wrong_rank(folder: Path) -> tuple[Path, Path]:
    """Four ranks, of which the third is off."""
    for side in ("npu", "ref"):
        for rank in range(4):
            scale = 1.5 if (side, rank) == ("npu", 2) else 1
            write_small_model(folder / side / "step0" / f"rank{rank}", scale)
    return folder / "npu", folder / "ref"


def write_extra_call(folder: Path) -> tuple[Path, Path]:
    """One run multiplies once more, in a module of its own that the other lacks."""
    for side, is_extra in (("npu", True), ("ref", False)):
        net, layer = "Module.net.Net.forward.0", "Module.net.layers.0.Layer.forward.0"
        wrapper, scale = "Module.net.layers.0.outer.Outer.forward.0", "Tensor.__mul__.0.forward"
        last, norm = "Functional.softmax.0.forward", 6.0 if is_extra else 4.0
        construct = {net: None, layer: net, "Functional.linear.0.forward": layer}
        data = {net: forward([tensor(3.0)], [tensor(norm)])}
        data[layer] = forward([tensor(3.0)], [tensor(norm)])
        data["Functional.linear.0.forward"] = forward([tensor(3.0)], [tensor(4.0)])
        if is_extra:
            construct |= {wrapper: layer, scale: wrapper}
            data[wrapper] = forward([tensor(4.0)], [tensor(6.0)])
            data[scale] = forward([tensor(4.0), number(1.5)], [tensor(6.0)])
        construct[last] = layer
        data[last] = forward([tensor(norm)], [tensor(norm)])
        write_dump(folder / side, data, construct)
    return folder / "npu", folder / "ref"


def write_deep(folder: Path) -> tuple[Path, Path]:
    """A call in 81 modules, of which each holds the next."""
    for side, scale in (("npu", 1.5), ("ref", 1.0)):
        construct: dict[str, str | None] = {}
        path, above = "net", None
        for level in range(81):
            path += f".m{level}" if level else ""
            name = f"Module.{path}.Block.forward.0"
            construct[name], above = above, name
        put_out = forward([tensor(3.0)], [tensor(2.0 * scale)])
        data = dict.fromkeys(construct, put_out)
        call = "Functional.gelu.0.forward"
        construct[call], data[call] = above, put_out
        write_dump(folder / side, data, construct)
    return folder / "npu", folder / "ref"


def write_grid(small: Path, database: Path) -> Path:
    """12 steps of 64 ranks; what is wrong begins at one of them and is everywhere a step later.

    Each is the one step and rank of ``small``, whose nodes are copied.
    """
    shutil.copy(small, database)
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in (
            "propagation",
            "role",
            "suspect_alone",
            "suspect",
            "verdict_alone",
            "verdict",
        ):
            connection.execute(f"DELETE FROM {table}")
        [[nodes]] = connection.execute("SELECT max(node_id) FROM node")
        counted = "WITH RECURSIVE k (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM k WHERE k < ?)"
        for table, shifted in _SHIFTED.items():
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            taken = ", ".join(shifted.get(name, name) for name in columns)
            connection.execute(
                f"INSERT INTO {table} {counted} SELECT {taken} FROM {table}, k".replace(
                    "NODES", str(nodes)
                ),
                (STEPS * RANKS - 1,),
            )
        said = ""  # nothing more
        whole = "INSERT INTO verdict (conclusion, sentence, compared) VALUES ('fault', ?, 9)"
        connection.execute(whole, (said,))
        connection.executemany(
            "INSERT INTO verdict (step, rank, conclusion, sentence, compared)"
            " VALUES (?, ?, ?, ?, 9)",
            [
                (step, rank, outcome_of(step, rank), said)
                for step in range(STEPS)
                for rank in range(RANKS)
            ],
        )
        connection.execute(
            "INSERT INTO suspect (node_id, place, overall, strength, cause, error, followers,"
            " evidence) SELECT first_node + 5, 1, 1, 2, 'operator', 0.5, 3, ? FROM graph"
            " WHERE side = 0 AND step = ? AND rank = ?",
            (said, *BEGINS),
        )
    return database


_NODE = "+ k * NODES"
_SHIFTED = {
    "graph": {
        "graph_id": "graph_id + 2 * k",
        "step": f"k / {RANKS}",
        "rank": f"k % {RANKS}",
        "first_node": f"first_node {_NODE}",
    },
    "node": {
        "graph_id": "graph_id + 2 * k",
        **{name: f"{name} {_NODE}" for name in ("node_id", "parent_id", "subtree_end")},
    },
    "rollup": {"node_id": f"node_id {_NODE}"},
    "match": {name: f"{name} {_NODE}" for name in ("npu_node", "bench_node")},
}


def outcome_of(step: int, rank: int) -> str:
    if (step, rank) == BEGINS:
        return "fault"
    return "follows" if step > BEGINS[0] else "clean"
