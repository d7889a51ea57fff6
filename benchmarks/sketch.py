"""How well sketches tell the size of a difference; what they cost is told by collector.py.

    python benchmarks/sketch.py    # into benchmarks/results/sketch.md

Accuracy is of the recorder's own sums in float32, of pairs in each type; the truth is numpy's.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import sys
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


def main() -> None:
    argparse.ArgumentParser(description="Measure how well sketches tell.").parse_args()
    from result_tables import write_tables

    kinds, sizes = accuracy()
    write_tables("sketch.md", "Accuracy", [kinds, sizes])


if __name__ == "__main__":
    main()
