"""The tensors of a synthetic model: their statistics, and how two sides of it differ."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synthetic_model import API, MODULE, Side

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD = 0, 1, 2, 3
NO_NODE = -1
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
    """Partner of each NPU node: same name, same turn below matched parents."""
    bench_of_key = {key: node for node, key in enumerate(_keys(bench))}
    partner = np.full(len(npu.parent), NO_NODE, np.int64)
    partner[0] = 0
    for node, (parent, stem, direction, turn) in enumerate(_keys(npu)):
        if node > 0 and partner[parent] != NO_NODE:
            key = (int(partner[parent]), stem, direction, turn)
            partner[node] = bench_of_key.get(key, NO_NODE)
    return partner


def _keys(side: Side) -> list[tuple[int, str, int, int]]:
    """Parent, stem, direction, and how many such siblings came before."""
    turns: dict[tuple[int, str, int], int] = {}
    found = []
    for base in zip(side.parent, side.stem, side.direction, strict=True):
        turns[base] = turns.get(base, -1) + 1
        found.append((*base, turns[base]))
    return found


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


@dataclass(frozen=True)
class Comparison:
    """Rows of the two sides that belong together, and the errors of each pair."""

    npu_rows: Ints
    bench_rows: Ints
    metrics: Floats  # differences of max, min, mean, norm, then their relative errors
    error: Floats  # contribution to the node, NaN where the pair does not count


def compare(
    npu: Tensors, bench: Tensors, partner: Ints, errors: Floats, rng: np.random.Generator
) -> Comparison:
    """Derive the NPU's statistics from the bench's, off by about ``errors``, and compare them."""
    first_of_bench = {int(node): row for row, node in reversed(list(enumerate(bench.node)))}
    first = np.array([first_of_bench.get(int(partner[node]), -1) for node in npu.node])
    npu_rows = np.flatnonzero(first >= 0)
    bench_rows = first[npu_rows] + npu.ordinal[npu_rows]
    golden = bench.statistics[bench_rows]
    section = npu.section[npu_rows]
    # Inputs carry what came from above; parameters are the same on both sides.
    factor = errors[npu.node[npu_rows]] * np.choose(section, [0.3, 1.0, 0.0, 1.0])
    npu.statistics[npu_rows] = golden * (1 + factor[:, None] * rng.normal(0.0, 1.0, golden.shape))
    outputs = npu_rows[section == OUTPUT]
    broken = rng.choice(outputs, max(3, len(outputs) // 50_000))
    npu.statistics[broken, 2:] = np.nan, np.inf
    difference = npu.statistics[npu_rows] - golden
    with np.errstate(invalid="ignore"):
        relative = np.abs(difference / golden)
    worst = np.nan_to_num(relative, nan=1.0, posinf=1.0).max(axis=1).clip(max=1.0)
    error = np.where((section == OUTPUT) | (section == PARAMETERS_GRAD), worst, np.nan)
    return Comparison(npu_rows, bench_rows, np.concatenate([difference, relative], axis=1), error)
