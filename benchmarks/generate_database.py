"""Make a large synthetic .vis.db: a Llama-like training step on two sides, most of it matched.

The numbers are random but consistent: comparisons, node errors, grades and rollups all follow from
the statistics of the tensors. From one layer on attention is wrong, and the error spreads.
"""

import argparse
import itertools
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.migrations import lay_out
from msprobe_builder.database.write.packed import write_packed_columns
from synthetic_model import API, Side, run_step
from synthetic_tensors import (
    INPUT,
    NO_NODE,
    OUTPUT,
    Comparison,
    Floats,
    Ints,
    Tensors,
    Texts,
    compare,
    fill_statistics,
    lay_out_tensors,
    match_sides,
    typical_error,
)

Row = tuple[Any, ...]

NPU, BENCH = 0, 1
UNGRADED, OK, SEVERE, UNMATCHED = 0, 1, 5, 6
GRADES: list[Row] = [
    (0, "ungraded", None, None, "#ffffff"),
    (1, "ok", 0.0, 0.2, "#fffcf3"),
    (2, "slight", 0.2, 0.4, "#ffedbe"),
    (3, "moderate", 0.4, 0.6, "#ffdc7f"),
    (4, "serious", 0.6, 0.8, "#ffc62e"),
    (5, "severe", 0.8, 1.0, "#ff704d"),
    (6, "unmatched", None, None, "#c7c7c7"),
]
REASONS: list[Row] = [(1, "no_such_name"), (2, "other_parent")]


@dataclass(frozen=True)
class Options:
    """What to write."""

    output: Path
    layers: int
    micro_steps: int
    wide: int
    steps: int
    ranks: int
    overflow: bool
    seed: int


@dataclass
class Database:
    """The file being written; stacks by the class of the module or API they lead to."""

    db: sqlite3.Connection
    texts: Texts = field(default_factory=Texts)
    stacks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """One side of one rank of one step with its grades."""

    side: int
    step: int
    rank: int
    first_node: int
    tree: Side
    tensors: Tensors
    error: Floats
    grade: Ints
    overflow: Ints


def nan_bits(values: Floats) -> Ints:
    bits = np.isnan(values).astype(np.int64) << np.arange(values.shape[1])
    return np.asarray(bits.sum(axis=1), np.int64)


def insert(db: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    rows = iter(rows)
    first = next(rows, None)
    if first is not None:
        marks = ",".join("?" * len(first))
        statement = f"INSERT INTO {table} VALUES ({marks})"
        db.executemany(statement, itertools.chain([first], rows))


def write_stacks(database: Database, names: Iterable[str]) -> None:
    """One stack per class of module or API; library frames above the user's own script."""
    texts, stacks = database.texts, database.stacks
    library = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"
    modeling = "/usr/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py"
    frames: dict[Row, int] = {}
    rows: list[Row] = []
    for name in sorted(set(names)):
        stacks[name] = len(stacks) + 1
        entries = [(modeling, 100 + len(stacks), "forward", f"return self.{name}(hidden_states)")]
        for depth in range(8):
            entries.append((library, 1700 + depth, "_call_impl", "return forward_call(*args)"))
            entries.append((modeling, 300 + depth, "forward", "hidden_states = decoder_layer("))
        entries.append(("/home/user/train.py", 79, "<module>", "loss = model(**batch).loss"))
        for depth, (file, line, function, source) in enumerate(entries):
            frame = (texts.id(file), line, texts.id(function), texts.id(source))
            rows.append((stacks[name], depth, frames.setdefault(frame, len(frames) + 1)))
    insert(database.db, "frame", ((number, *frame) for frame, number in frames.items()))
    insert(database.db, "stack", rows)


def class_of(stem: str) -> str:
    return stem.rpartition(".")[2]


def write_graph(database: Database, graph: Graph, graph_id: int, micro_steps: int) -> None:
    db, texts, tree, first = database.db, database.texts, graph.tree, graph.first_node
    directory = f"/data/{('npu', 'bench')[graph.side]}/step{graph.step}/rank{graph.rank}"
    place = (graph_id, graph.side, graph.step, graph.rank, first, len(tree.parent), micro_steps)
    loss = 4 / (1 + graph.step) + 1e-3 * graph.side * graph.step
    insert(db, "graph", [(*place, "mix", "pytorch", directory, None, None, loss)])
    nodes = zip(
        itertools.count(first),
        itertools.repeat(graph_id),
        (None if parent == NO_NODE else parent + first for parent in tree.parent),
        (end + first for end in tree.end),
        tree.kind,
        (texts.id(stem) for stem in tree.stem),
        tree.direction,
        tree.call,
        tree.micro,
        itertools.repeat(0),
        (database.stacks[class_of(stem)] for stem in tree.stem),
        graph.error.tolist(),  # SQLite stores NaN as NULL
        graph.grade.tolist(),
        (level or None for level in graph.overflow.tolist()),
        strict=False,
    )
    insert(db, "node", nodes)
    insert(db, "rollup", rollup_rows(graph))
    write_parameters(database, graph)


def write_parameters(database: Database, graph: Graph) -> None:
    db, texts, tensors, first = database.db, database.texts, graph.tensors, graph.first_node
    columns = [tensors.node + first, tensors.ordinal, tensors.section, tensors.name]
    columns += [np.full_like(tensors.node, texts.id("torch.Tensor"))]
    columns += [np.full_like(tensors.node, texts.id("torch.bfloat16")), tensors.shape]
    columns += [(tensors.section == OUTPUT).astype(np.int64)]
    numbers = [column.tolist() for column in (*columns, *tensors.statistics.T)]
    bits = nan_bits(tensors.statistics)
    rest = itertools.repeat(None), itertools.repeat(None), itertools.repeat(None)
    insert(db, "tensor", zip(*numbers, bits.tolist(), *rest, strict=False))
    name, kind, value = texts.id("input.1"), texts.id("torch.dtype"), texts.id("torch.float32")
    casts = (node for node, stem in enumerate(graph.tree.stem) if stem == "Tensor.to")
    insert(db, "argument", ((node + first, 9, INPUT, name, kind, value) for node in casts))
    marked = np.flatnonzero((bits > 0) & (graph.overflow[tensors.node] > 0))
    places = np.stack([tensors.node[marked] + first, tensors.ordinal[marked]], axis=1)
    insert(db, "overflow_parameter", places.tolist())


def rollup_rows(graph: Graph) -> list[Row]:
    nodes = np.flatnonzero(np.array(graph.tree.kind) != API)
    ends = np.array(graph.tree.end)[nodes]

    def below(values: Ints, kinds: int) -> Ints:
        """How many of each value there are below each node: a difference of running totals."""
        totals = np.cumsum(values[:, None] == np.arange(kinds), axis=0)
        return np.asarray(totals[ends] - totals[nodes])

    grades, levels = below(graph.grade, 7), below(graph.overflow, 4)
    worst = ((grades[:, OK : SEVERE + 1] > 0) * np.arange(OK, SEVERE + 1)).max(axis=1)
    highest = ((levels > 0) * np.arange(4)).max(axis=1)
    columns = [(nodes + graph.first_node).tolist(), worst.tolist(), highest.tolist()]
    return [
        (node, grade, level or None, *counts)
        for node, grade, level, counts in zip(*columns, grades.tolist(), strict=True)
    ]


def grade_nodes(error: Floats, is_matched: NDArray[np.bool_]) -> Ints:
    band = np.clip((np.nan_to_num(error) * 5).astype(np.int64) + OK, OK, SEVERE)
    return np.where(is_matched, np.where(np.isnan(error), UNGRADED, band), UNMATCHED)


def write_comparisons(
    db: sqlite3.Connection, npu: Graph, bench: Graph, comparison: Comparison
) -> None:
    rows = comparison.npu_rows
    columns = [npu.tensors.node[rows] + npu.first_node, npu.tensors.ordinal[rows]]
    columns += [bench.tensors.ordinal[comparison.bench_rows], nan_bits(comparison.metrics)]
    numbers = [*columns, comparison.error, *comparison.metrics.T]
    db.executemany(
        "INSERT INTO comparison (npu_node, npu_ordinal, bench_ordinal, nan_flags, error, max_diff,"
        " min_diff, mean_diff, norm_diff, max_relative_err, min_relative_err, mean_relative_err,"
        " norm_relative_err) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        zip(*(column.tolist() for column in numbers), strict=True),
    )


def write_matches(db: sqlite3.Connection, npu: Graph, bench: Graph, partner: Ints) -> None:
    matched = np.flatnonzero(partner != NO_NODE)
    pairs = np.stack([matched + npu.first_node, partner[matched] + bench.first_node], axis=1)
    db.executemany("INSERT INTO match (npu_node, bench_node) VALUES (?, ?)", pairs.tolist())
    for graph in (npu, bench):
        lonely = set(np.flatnonzero(graph.grade == UNMATCHED).tolist())
        parents = ((node, graph.tree.parent[node]) for node in sorted(lonely))
        rows = ((n + graph.first_node, 1 + (parent in lonely), None, None) for n, parent in parents)
        insert(db, "unmatched", rows)


def write_pair(
    database: Database, options: Options, number: int, step: int, rank: int, first: int
) -> int:
    """Both sides of one rank of one step; returns the number of nodes written."""
    rng = np.random.default_rng((options.seed, step, rank))
    layers, micro_steps, wide = options.layers, options.micro_steps, options.wide
    npu = run_step(layers, micro_steps, max(1, layers // 20), wide)
    bench = run_step(layers, micro_steps, 0, wide)
    if not database.stacks:
        write_stacks(database, map(class_of, (*npu.stem, *bench.stem)))
    tensors = [lay_out_tensors(side, database.texts) for side in (npu, bench)]
    for one in tensors:
        fill_statistics(one, rng)
    partner = match_sides(npu, bench)
    typical = typical_error(npu, options.layers, rng)
    comparison = compare(tensors[NPU], tensors[BENCH], partner, typical, rng)
    error = np.full(len(partner), np.nan)
    np.fmax.at(error, tensors[NPU].node[comparison.npu_rows], comparison.error)
    overflow = np.zeros(len(partner), np.int64)
    if options.overflow:
        broken = tensors[NPU].node[np.isnan(tensors[NPU].statistics).any(axis=1)]
        overflow[broken] = 2
        overflow[broken[::3]] = 3
    graded = grade_nodes(error, partner != NO_NODE)
    nothing = np.full(len(bench.parent), np.nan)
    has_partner = np.isin(np.arange(len(nothing)), partner)
    bench_graded = grade_nodes(nothing, has_partner)
    bench_first = first + len(npu.parent)
    graphs = (
        Graph(NPU, step, rank, first, npu, tensors[NPU], error, graded, overflow),
        Graph(
            BENCH, step, rank, bench_first, bench, tensors[BENCH], nothing, bench_graded,
            np.zeros(len(nothing), np.int64),
        ),
    )  # fmt: skip
    for graph in graphs:
        write_graph(database, graph, 2 * number + graph.side + 1, options.micro_steps)
    write_matches(database.db, *graphs, partner)
    write_comparisons(database.db, *graphs, comparison)
    return len(npu.parent) + len(bench.parent)


def write_database(options: Options) -> int:
    """Write the whole file; returns its number of nodes."""
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.unlink(missing_ok=True)
    db = sqlite3.connect(options.output)
    db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    lay_out(db)
    database = Database(db)
    insert(db, "grade", GRADES)
    insert(db, "unmatched_reason", REASONS)
    facts = {
        "kind": "compare",
        "task": "statistics",
        "overflow_checked": str(int(options.overflow)),
    }
    facts |= {"npu_path": "/data/npu", "bench_path": "/data/bench"}
    facts["created_at"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    insert(db, "meta", facts.items())
    written = 0
    places = itertools.product(range(options.steps), range(options.ranks))
    for number, (step, rank) in enumerate(places):
        written += write_pair(database, options, number, step, rank, written + 1)
    insert(db, "text", ((number, value) for value, number in database.texts.ids.items()))
    db.commit()
    db.close()
    write_packed_columns(options.output)
    return written


def parse_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .vis.db to write")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--micro-steps", type=int, default=1)
    parser.add_argument(
        "--nodes", type=int, help="nodes per side, reached by choosing the number of micro-steps"
    )
    parser.add_argument(
        "--wide", type=int, default=0, help="calls in one more collection, after all micro-steps"
    )
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--overflow", action="store_true", help="mark nodes that overflow")
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    nodes = given.pop("nodes")
    if nodes:
        one, two = (len(run_step(given["layers"], count, 0).parent) for count in (1, 2))
        rest = nodes - one - given["wide"]
        given["micro_steps"] = max(1, 1 + round(rest / (two - one)))
    return Options(**given)


def main() -> None:
    options = parse_options()
    nodes = write_database(options)
    print(f"{options.output}: {nodes} nodes, {options.output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
