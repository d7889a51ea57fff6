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
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from synthetic_model import API, MODULE, Side, run_step

SCHEMA = Path(__file__).parent.parent / "msprobe_builder" / "store" / "schema.sql"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Row = tuple[Any, ...]

NPU, BENCH = 0, 1
INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD = 0, 1, 2, 3
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
REASONS: list[Row] = [(0, "no node of this name"), (1, "its parent is not matched")]
TWO_INPUTS = ("__mul__", "__add__", "matmul", "linear", "embedding", "cross_entropy", "fusion")


@dataclass
class Texts:
    """Texts stored once, numbered as they come."""

    ids: dict[str, int] = field(default_factory=dict)

    def id(self, value: str) -> int:
        return self.ids.setdefault(value, len(self.ids) + 1)


@dataclass
class Tensors:
    """The tensors of one graph as columns, ordered by node and ordinal."""

    node: Ints
    ordinal: Ints
    section: Ints
    name: Ints
    shape: Ints
    statistics: Floats = field(kw_only=True)  # max, min, mean, norm


def plan_of(stem: str, kind: int) -> list[tuple[int, str, str]]:
    """Section, name and shape of the tensors that a node of this stem holds."""
    hidden, weight = "[2, 2048, 4096]", "[4096, 4096]"
    if stem.endswith("parameters_grad"):
        return [(PARAMETERS_GRAD, "parameters_grad.weight", weight)]
    if kind == API:
        inputs = 2 if any(word in stem for word in TWO_INPUTS) else 1
        found = [(INPUT, f"input.{index}", hidden) for index in range(inputs)]
        return [*found, (OUTPUT, "output.0", hidden)]
    if kind != MODULE or "." not in stem:
        return []
    found = [(INPUT, "input.0", hidden), (OUTPUT, "output.0", hidden)]
    if stem.endswith(("Linear", "LlamaRMSNorm", "Embedding")):
        found.append((PARAMETERS, "parameters.weight", weight))
    return found


def lay_out_tensors(side: Side, texts: Texts) -> Tensors:
    columns: list[list[int]] = [[], [], [], [], []]
    for node, (stem, kind) in enumerate(zip(side.stem, side.kind, strict=True)):
        for ordinal, (section, name, shape) in enumerate(plan_of(stem, kind)):
            row = (node, ordinal, section, texts.id(name), texts.id(shape))
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    nodes, *rest = (np.array(column, np.int64) for column in columns)
    return Tensors(nodes, *rest, statistics=np.empty((len(nodes), 4)))


def match_sides(npu: Side, bench: Side) -> Ints:
    """Partner of each NPU node, -1 for none: same name, same turn below matched parents."""

    def keys(side: Side, parent_of: Iterable[int]) -> list[tuple[int, str, int, int]]:
        turns: dict[tuple[int, str, int], int] = {}
        found = []
        for parent, stem, direction in zip(parent_of, side.stem, side.direction, strict=True):
            base = (parent, stem, direction)
            turns[base] = turns.get(base, -1) + 1
            found.append((*base, turns[base]))
        return found

    bench_by_key = {key: node for node, key in enumerate(keys(bench, bench.parent))}
    partner = np.full(len(npu.parent), -1, np.int64)
    turns = [key[3] for key in keys(npu, npu.parent)]
    partner[0] = 0
    for node in range(1, len(partner)):
        above = int(partner[npu.parent[node]])
        if above >= 0:
            key = (above, npu.stem[node], npu.direction[node], turns[node])
            partner[node] = bench_by_key.get(key, -1)
    return partner


def typical_error(side: Side, layers: int, rng: np.random.Generator) -> Floats:
    """Relative error of each node's numbers: rounding noise, then a jump at the wrong layer."""
    first_bad = int(layers * 0.6)
    layer = np.array(
        [int(stem.split(".layers.")[1].split(".")[0]) if ".layers." in stem else -1
         for stem in side.stem]
    )  # fmt: skip
    for node, parent in enumerate(side.parent):
        if layer[node] < 0 and parent > 0:
            layer[node] = layer[parent]
    noise = 10 ** rng.normal(-5.5, 1.0, len(layer))
    spread = 10 ** rng.normal(-1.0, 0.6, len(layer))
    bad = (layer >= first_bad) & (rng.random(len(layer)) < 0.25)
    return np.where(bad, spread, noise)


def fill_statistics(tensors: Tensors, rng: np.random.Generator) -> None:
    count = len(tensors.node)
    scale = 10 ** rng.normal(0.0, 1.0, count)
    mean = scale * rng.normal(0.0, 0.05, count)
    columns = (mean + scale * 4, mean - scale * 4, mean, scale * 4096)
    tensors.statistics = np.stack(columns, axis=1)


def compare(
    npu: Tensors, bench: Tensors, partner: Ints, errors: Floats, rng: np.random.Generator
) -> tuple[Ints, Ints, Floats, Floats]:
    """Make the NPU's statistics deviate; rows of both sides, differences, relative errors."""
    first_of_bench = {int(node): row for row, node in reversed(list(enumerate(bench.node)))}
    first = np.array([first_of_bench.get(int(partner[node]), -1) for node in npu.node])
    npu_rows = np.flatnonzero(first >= 0)
    bench_rows = first[npu_rows] + npu.ordinal[npu_rows]
    golden = bench.statistics[bench_rows]
    # Inputs carry what came from above; parameters are the same on both sides.
    weight = np.choose(npu.section[npu_rows], [0.3, 1.0, 0.0, 1.0])
    factor = errors[npu.node[npu_rows]] * weight
    deviation = factor[:, None] * rng.normal(0.0, 1.0, golden.shape)
    measured = golden * (1 + deviation)
    outputs = npu_rows[npu.section[npu_rows] == OUTPUT]
    broken = rng.choice(outputs, max(3, len(outputs) // 50_000))
    npu.statistics[npu_rows] = measured
    npu.statistics[broken, 2] = np.nan
    npu.statistics[broken, 3] = np.inf
    measured = npu.statistics[npu_rows]
    difference = measured - golden
    with np.errstate(invalid="ignore"):
        relative = np.abs(difference / golden)
    return npu_rows, bench_rows, difference, relative


def nan_bits(values: Floats) -> Ints:
    bits = np.isnan(values).astype(np.int64) << np.arange(values.shape[1])
    return np.asarray(bits.sum(axis=1), np.int64)


def nullable(values: Floats) -> list[list[float | None]]:
    """Columns for the database: NaN becomes NULL."""
    return [[None if isnan(v) else v for v in column] for column in values.T.tolist()]


def rollup_rows(side: Side, grade: Ints, overflow: Ints, first_node: int) -> list[Row]:
    counts = np.zeros((len(grade) + 1, 7), np.int64)
    counts[1:] = np.cumsum(grade[:, None] == np.arange(7), axis=0)
    levels = np.zeros((len(grade) + 1, 4), np.int64)
    levels[1:] = np.cumsum(overflow[:, None] == np.arange(4), axis=0)
    nodes = np.flatnonzero(np.array(side.kind) != API)
    ends = np.array(side.end)[nodes] + 1
    below = counts[ends] - counts[nodes + 1]
    worst = ((below[:, 1:6] > 0) * np.arange(1, 6)).max(axis=1)
    high = (((levels[ends] - levels[nodes + 1])[:, 1:] > 0) * np.arange(1, 4)).max(axis=1)
    return [
        (node + first_node, w, o or None, *row)
        for node, w, o, row in zip(
            nodes.tolist(), worst.tolist(), high.tolist(), below.tolist(), strict=True
        )
    ]


def insert(db: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    rows = iter(rows)
    first = next(rows, None)
    if first is not None:
        marks = ",".join("?" * len(first))
        statement = f"INSERT INTO {table} VALUES ({marks})"
        db.executemany(statement, itertools.chain([first], rows))


def write_stacks(db: sqlite3.Connection, texts: Texts, sides: Iterable[Side]) -> dict[str, int]:
    """One stack per class of module or API; library frames below the user's own script."""
    library = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"
    modeling = "/usr/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py"
    frames: dict[Row, int] = {}
    stacks: dict[str, int] = {}
    rows: list[Row] = []
    for name in sorted({stem.rpartition(".")[2] for side in sides for stem in side.stem}):
        stacks[name] = len(stacks) + 1
        entries = [(modeling, 100 + len(stacks), "forward", f"return self.{name}(hidden_states)")]
        for depth in range(8):
            entries.append((library, 1700 + depth, "_call_impl", "return forward_call(*args)"))
            entries.append((modeling, 300 + depth, "forward", "hidden_states = decoder_layer("))
        entries.append(("/home/user/train.py", 79, "<module>", "loss = model(**batch).loss"))
        for depth, (file, line, function, source) in enumerate(entries):
            frame = (texts.id(file), line, texts.id(function), texts.id(source))
            rows.append((stacks[name], depth, frames.setdefault(frame, len(frames) + 1)))
    insert(db, "frame", ((number, *frame) for frame, number in frames.items()))
    insert(db, "stack", rows)
    return stacks


def write_side(
    db: sqlite3.Connection, texts: Texts, graph_id: int, key: Row, first: int, side: Side,
    tensors: Tensors, error: Floats, grade: Ints, overflow: Ints, micro_steps: int,
    stacks: dict[str, int],
) -> None:  # fmt: skip
    which, step, rank = key
    directory = f"/data/{('npu', 'bench')[which]}/step{step}/rank{rank}"
    size = len(side.parent)
    graph = (graph_id, which, step, rank, first, size, micro_steps, "mix", "pytorch", directory)
    insert(db, "graph", [(*graph, None)])
    nodes = zip(
        range(first, first + size),
        itertools.repeat(graph_id),
        (None if parent < 0 else parent + first for parent in side.parent),
        (end + first for end in side.end),
        side.kind,
        (texts.id(stem) for stem in side.stem),
        side.direction,
        side.call,
        side.micro,
        itertools.repeat(0),
        (stacks[stem.rpartition(".")[2]] for stem in side.stem),
        nullable(error[:, None])[0],
        grade.tolist(),
        (level or None for level in overflow.tolist()),
    )
    insert(db, "node", nodes)
    insert(db, "rollup", rollup_rows(side, grade, overflow, first))
    requires_grad = (tensors.section == OUTPUT).astype(int)
    kind, dtype = texts.id("torch.Tensor"), texts.id("torch.bfloat16")
    rows = zip(
        (tensors.node + first).tolist(), tensors.ordinal.tolist(), tensors.section.tolist(),
        tensors.name.tolist(), itertools.repeat(kind), itertools.repeat(dtype),
        tensors.shape.tolist(), requires_grad.tolist(), *nullable(tensors.statistics),
        nan_bits(tensors.statistics).tolist(), itertools.repeat(None), itertools.repeat(None),
    )  # fmt: skip
    insert(db, "tensor", rows)
    casts = [node for node in range(size) if side.stem[node] == "Tensor.to"]
    name, type_name, value = texts.id("input.1"), texts.id("torch.dtype"), texts.id("torch.float32")
    insert(db, "argument", ((n + first, 9, INPUT, name, type_name, value) for n in casts))
    broken = np.flatnonzero(np.isnan(tensors.statistics).any(axis=1))
    marked = broken[overflow[tensors.node[broken]] > 0]
    places = zip(
        (tensors.node[marked] + first).tolist(), tensors.ordinal[marked].tolist(), strict=True
    )
    insert(db, "overflow_parameter", places)


def write_pair(
    db: sqlite3.Connection, texts: Texts, step: int, rank: int, first: int, graph_id: int,
    options: argparse.Namespace,
) -> int:  # fmt: skip
    """Both sides of one rank of one step; returns the number of nodes written."""
    rng = np.random.default_rng((options.seed, step, rank))
    fused = max(1, options.layers // 20)
    npu = run_step(options.layers, options.micro_steps, fused)
    bench = run_step(options.layers, options.micro_steps, 0)
    sides = (npu, bench)
    stacks = options.stacks or write_stacks(db, texts, sides)
    options.stacks = stacks
    tensors = [lay_out_tensors(side, texts) for side in sides]
    for one in tensors:
        fill_statistics(one, rng)
    partner = match_sides(npu, bench)
    typical = typical_error(npu, options.layers, rng)
    npu_rows, bench_rows, difference, relative = compare(
        tensors[NPU], tensors[BENCH], partner, typical, rng
    )
    section = tensors[NPU].section[npu_rows]
    decides = (section == OUTPUT) | (section == PARAMETERS_GRAD)
    worst = np.nan_to_num(relative, nan=1.0, posinf=1.0).max(axis=1).clip(max=1.0)
    contribution = np.where(decides, worst, np.nan)
    error = np.full(len(partner), np.nan)
    np.fmax.at(error, tensors[NPU].node[npu_rows], contribution)
    band = np.clip((np.nan_to_num(error) * 5).astype(np.int64) + OK, OK, SEVERE)
    grade = np.where(np.isnan(error), UNGRADED, band)
    grade = np.where(partner < 0, UNMATCHED, grade)
    overflow = np.zeros(len(partner), np.int64)
    if options.overflow:
        broken = np.isnan(tensors[NPU].statistics).any(axis=1)
        overflow[tensors[NPU].node[broken]] = 2
        overflow[tensors[NPU].node[broken][::3]] = 3
    is_matched = np.zeros(len(bench.parent), bool)
    is_matched[partner[partner >= 0]] = True
    bench_grade = np.where(is_matched, UNGRADED, UNMATCHED)
    bench_first = first + len(npu.parent)
    for which, start, node_error, node_grade, level in (
        (NPU, first, error, grade, overflow),
        (BENCH, bench_first, np.full(len(bench_grade), np.nan), bench_grade, bench_grade * 0),
    ):
        write_side(
            db, texts, graph_id + which, (which, step, rank), start, sides[which], tensors[which],
            node_error, node_grade, level, options.micro_steps, stacks,
        )  # fmt: skip
    matched = np.flatnonzero(partner >= 0)
    pairs = zip((matched + first).tolist(), (partner[matched] + bench_first).tolist(), strict=True)
    db.executemany("INSERT INTO match (npu_node, bench_node) VALUES (?, ?)", pairs)
    for side, start, missing in (
        (npu, first, np.flatnonzero(partner < 0)),
        (bench, bench_first, np.flatnonzero(~is_matched)),
    ):
        lonely = set(missing.tolist())
        rows = ((n + start, int(side.parent[n] in lonely), None, None) for n in missing.tolist())
        insert(db, "unmatched", rows)
    metrics = np.concatenate([difference, relative], axis=1)
    comparisons = zip(
        (tensors[NPU].node[npu_rows] + first).tolist(), tensors[NPU].ordinal[npu_rows].tolist(),
        tensors[BENCH].ordinal[bench_rows].tolist(), *nullable(metrics),
        nullable(contribution[:, None])[0], nan_bits(metrics).tolist(), strict=True,
    )  # fmt: skip
    db.executemany(
        "INSERT INTO comparison (npu_node, npu_ordinal, bench_ordinal, max_diff, min_diff,"
        " mean_diff, norm_diff, max_relative_err, min_relative_err, mean_relative_err,"
        " norm_relative_err, error, nan_flags) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        comparisons,
    )
    return len(npu.parent) + len(bench.parent)


def write_database(options: argparse.Namespace) -> int:
    output: Path = options.output
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    db = sqlite3.connect(output)
    db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    db.executescript(SCHEMA.read_text(encoding="utf-8"))
    texts = Texts()
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    insert(db, "grade", GRADES)
    insert(db, "unmatched_reason", REASONS)
    facts = {"task": "statistics", "npu_path": "/data/npu", "bench_path": "/data/bench"}
    facts |= {"kind": "compare", "created_at": created}
    facts["overflow_checked"] = str(int(options.overflow))
    insert(db, "meta", facts.items())
    written = 1
    pairs = itertools.product(range(options.steps), range(options.ranks))
    for number, (step, rank) in enumerate(pairs):
        written += write_pair(db, texts, step, rank, written, 2 * number + 1, options)
    insert(db, "text", ((number, value) for value, number in texts.ids.items()))
    db.commit()
    db.close()
    return written - 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .vis.db to write")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--micro-steps", type=int, default=1)
    parser.add_argument(
        "--nodes", type=int, help="nodes per side, reached by choosing the number of micro-steps"
    )
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--overflow", action="store_true", help="mark nodes that overflow")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.stacks = None
    if options.nodes:
        one, two = (len(run_step(options.layers, count, 0).parent) for count in (1, 2))
        options.micro_steps = max(1, 1 + round((options.nodes - one) / (two - one)))
    return options


if __name__ == "__main__":
    arguments = parse_arguments()
    total = write_database(arguments)
    print(f"{arguments.output}: {total} nodes, {arguments.output.stat().st_size / 1e6:.1f} MB")
