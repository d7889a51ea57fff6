"""How well sketches tell the size of a difference, and what recording them costs.

    python benchmarks/sketch.py           # accuracy, into benchmarks/results/sketch.md
    python benchmarks/sketch.py --cost    # as well CPU time of a step with and without, printed

Accuracy is of the recorder's own sums in float32, of pairs in each type; the truth is numpy's.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

Array = npt.NDArray[np.float64]
SHAPES = [(64, 64), (33, 100), (128, 128), (512, 256), (16, 2048), (2048, 16)]
CASES = 4  # of each shape
TYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn")
SIZES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def noise(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape)


def offset(_: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.ones(shape)


def bias(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.broadcast_to(rng.standard_normal(shape[1]), shape)


def sparse(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape) * (rng.random(shape) < 0.02)


def one_row(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    array = np.zeros(shape)
    array[rng.integers(shape[0])] = rng.standard_normal(shape[1])
    return array


def one_column(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return one_row(rng, shape[::-1]).T


def one_element(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    array = np.zeros(shape)
    array.flat[rng.integers(array.size)] = 1
    return array


def rank_one(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1]))


def smooth(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    down, across = (np.arange(length) / length * 6 + rng.random() * 6 for length in shape)
    return np.outer(np.sin(down), np.cos(across)) + 0.3


def two_rows_exchanged(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    array = np.zeros(shape)
    one, other = rng.choice(shape[0], 2, replace=False)
    array[one] = rng.standard_normal(shape[1])
    array[other] = -array[one]
    return array


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "noise": noise,
    "noise in 2 % of the elements": sparse,
    "a constant": offset,
    "a constant for each column": bias,
    "one row": one_row,
    "one column": one_column,
    "one element": one_element,
    "rank one": rank_one,
    "a smooth field": smooth,
    "two rows exchanged": two_rows_exchanged,
}


def pairs(
    rng: np.random.Generator, kind: str, size: float, type_name: str
) -> Iterator[tuple[Any, Any]]:
    """Tensors of one type that differ by a kind of difference of about this relative size."""
    import torch

    for shape in SHAPES * CASES:
        base = rng.standard_normal(shape)
        difference = KINDS[kind](rng, shape)
        changed = base + difference * (size * np.linalg.norm(base) / np.linalg.norm(difference))
        dtype = getattr(torch, type_name)
        yield torch.from_numpy(changed).to(dtype), torch.from_numpy(base).to(dtype)


def ratios(rng: np.random.Generator, kind: str, size: float, type_name: str) -> Array:
    """Estimated relative differences as shares of the true ones."""
    from msprobe_builder.sketch.estimates import estimates, layouts_of
    from msprobe_collector.record.sketches import Sketches
    from msprobe_collector.unseen import unseen

    sketches = Sketches()
    norms: list[float] = []
    truths: list[float] = []
    shapes: list[tuple[int, ...]] = []
    for ours, reference in pairs(rng, kind, size, type_name):
        with unseen():
            sketches.add(ours, None)
            sketches.add(reference, None)
        other = reference.double().numpy()
        shapes.append(other.shape)
        norms.append(float(np.linalg.norm(other)))
        truths.append(float(np.linalg.norm(ours.double().numpy() - other)) / norms[-1])
    rows = sketches.take()
    unknown, layouts = np.full(len(norms), np.nan), layouts_of(shapes)
    found = estimates(rows[::2], rows[1::2], unknown, np.array(norms), layouts)
    truth = np.array(truths)
    return found.relative[truth > 0] / truth[truth > 0]


def within(found: Array, factor: float) -> str:
    if not len(found):
        return "no difference is left"
    return f"{np.mean((found < factor) & (found > 1 / factor)):.0%}"


def accuracy() -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(1)
    kinds = [
        "| difference of 1 % | within 1.35, float32 | bfloat16 | float16 | float8 "
        "| within 2, float32 | least and most |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        found = [ratios(rng, kind, 1e-2, name) for name in TYPES]
        cells = [within(one, 1.35) for one in found]
        most = f"{found[0].min():.2f} … {found[0].max():.2f}"
        kinds.append(f"| {kind} | {' | '.join(cells)} | {within(found[0], 2)} | {most} |")
    sizes = ["| size of noise | within 1.35 | within 2 | median |", "|---|--:|--:|--:|"]
    for size in SIZES:
        one = ratios(rng, "noise", size, "float32")
        sizes.append(
            f"| {size:g} | {within(one, 1.35)} | {within(one, 2)} | {np.median(one):.2f} |"
        )
    return kinds, sizes


def cost(net: str, turns: int) -> dict[str, float]:
    """CPU milliseconds of a step at mix, the least of several in turns, and bytes a tensor."""
    import logging

    import torch
    import torch.nn.functional as F  # noqa: N812

    from collector import NETS
    from msprobe_builder.sketch.file import read_sketches
    from msprobe_builder.sketch.layout import NAME
    from msprobe_collector import PrecisionDebugger

    logging.getLogger("msprobe_collector").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokens = NETS[net]()

    def step() -> None:
        logits = model(tokens).reshape(-1, 512)
        F.cross_entropy(logits, tokens.reshape(-1)).backward()
        model.zero_grad()

    def seconds(run: Callable[[], None]) -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    times: dict[str, list[float]] = {"plain": [], "statistics": [], "sketch": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(turns):
            times["plain"].append(seconds(step))
            for mode in ("statistics", "sketch"):
                config = {
                    "task": "statistics",
                    "level": "mix",
                    "dump_path": str(folder / mode),
                    "statistics": {"summary_mode": mode},
                }
                (folder / "config.json").write_text(json.dumps(config))
                debugger = PrecisionDebugger(config_path=str(folder / "config.json"))

                def recorded(debugger: Any = debugger) -> None:
                    debugger.start(model)
                    step()
                    debugger.stop()
                    debugger.step()

                recorded()
                times[mode] += [seconds(recorded) for _ in range(3)]
                debugger.close()
        path = folder / "sketch" / "step1" / "rank" / NAME
        sketches = read_sketches(path, 1 << 31)
        assert sketches is not None
        size = path.stat().st_size / float(sketches.starts[-1])
    found = {key: statistics.median(taken) * 1e3 for key, taken in times.items()}
    return found | {"bytes": size}


def costs(turns: int) -> list[str]:
    from collector import NETS

    lines = [
        "| network, mix | plain ms | statistics ms | with sketches | factor | bytes a tensor |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for net in NETS:
        command = [sys.executable, __file__, "--measure", net, str(turns)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        factor = found["sketch"] / found["statistics"]
        numbers = " | ".join(f"{found[key]:.1f}" for key in ("plain", "statistics", "sketch"))
        lines.append(f"| {net} | {numbers} | {factor:.2f} × | {found['bytes']:.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure sketches.")
    parser.add_argument("--cost", action="store_true", help="measure CPU time as well")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(cost(options.measure[0], int(options.measure[1]))))
        return
    from result_tables import write_tables

    kinds, sizes = accuracy()
    write_tables("sketch.md", "Accuracy", [kinds, sizes])
    if options.cost:
        print("\n".join(costs(options.turns)))


if __name__ == "__main__":
    main()
