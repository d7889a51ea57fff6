"""What comparing real tensors costs, against reading the files and one pass in float64.

    python benchmarks/tensors.py [FOLDER] [--kind npy|pt|bfloat16] [--pairs 8] [--elements 64]
                                 [--runs 3]

Makes so many pairs of files of so many million elements, 4.3 GB unless told otherwise, in FOLDER
or a temporary one. Both programs run in turn, each in a process of its own with its start-up, on
all cores. The floor reads all files, block by block into memory that is used again, and takes the
sum of the squares of the differences in float64, with one thread per core; it checks nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from build import Cost, measured

_FLOOR = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np

BLOCK = 1 << 13
kind = sys.argv[2]

def wide(raw, out):
    if kind == "bfloat16":
        np.copyto(out, (raw.astype(np.uint32) << 16).view(np.float32))
    else:
        np.copyto(out, raw)

def compared(pair):
    total, (n, b) = 0.0, np.empty((2, BLOCK))
    stored = np.uint16 if kind == "bfloat16" else np.float32
    raw = np.empty((2, 32 * BLOCK), stored)
    with open(pair[0], "rb", buffering=0) as one, open(pair[1], "rb", buffering=0) as other:
        while (size := one.readinto(raw[0])) and other.readinto(raw[1]):
            for at in range(0, size // raw.itemsize, BLOCK):
                wide(raw[0, at : at + BLOCK], n)
                wide(raw[1, at : at + BLOCK], b)
                np.subtract(n, b, out=n)
                total += float(np.dot(n, n))
    return total

folders = [Path(sys.argv[3]) / side / "rank0" / "dump_tensor_data" for side in ("npu", "bench")]
sides = [sorted(folder.iterdir()) for folder in folders]
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    Path(sys.argv[1]).write_text(str(list(pool.map(compared, zip(*sides)))))
"""
_OURS = "from msprobe_builder.command.main import main; raise SystemExit(main())"
_DTYPES = {"npy": "torch.float32", "pt": "torch.float32", "bfloat16": "torch.bfloat16"}


def write_pairs(folder: Path, kind: str, pairs: int, elements: int) -> None:
    """Two dumps of one linear layer each, called ``pairs`` times."""
    random = np.random.default_rng(1)
    suffix = "npy" if kind == "npy" else "pt"
    sides = [folder / side / "rank0" for side in ("npu", "bench")]
    names = [f"Functional.linear.{number}.forward" for number in range(pairs)]
    for side in sides:
        (side / "dump_tensor_data").mkdir(parents=True)
        data = {
            name: {
                "input_args": [],
                "input_kwargs": {},
                "output": [
                    {
                        "type": "torch.Tensor",
                        "dtype": _DTYPES[kind],
                        "shape": [elements],
                        **dict.fromkeys(("Max", "Min", "Mean", "Norm"), 1.0),
                        "requires_grad": False,
                        "data_name": f"{name}.output.0.{suffix}",
                    }
                ],
            }
            for name in names
        }
        dump = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": data}
        (side / "dump.json").write_text(json.dumps(dump))
        (side / "construct.json").write_text(json.dumps(dict.fromkeys(names)))
        (side / "stack.json").write_text("{}")
    for name in names:
        bench = random.standard_normal(elements, np.float32)
        npu = bench * (1 + random.standard_normal(elements, np.float32) * np.float32(0.001))
        for side, content in zip(sides, (npu, bench), strict=True):
            path = side / "dump_tensor_data" / f"{name}.output.0.{suffix}"
            if kind == "npy":
                np.save(path, content)
                continue
            import torch

            tensor = torch.from_numpy(content)
            torch.save(tensor.bfloat16() if kind == "bfloat16" else tensor, path)


def report(costs: dict[str, list[Cost]], elements: int) -> None:
    """Print one table; ratios are the median of those of each turn."""
    print(
        f"  {'':14}{'CPU s':>8}{'wall s':>8}{'ns / pair':>11}"
        f"{'floor / CPU':>13}{'floor / wall':>14}"
    )
    for name, runs in costs.items():
        turns = list(zip(runs, costs["floor"], strict=True))
        cpu = median(run.cpu for run in runs)
        print(
            f"  {name:14}{cpu:8.2f}{median(run.wall for run in runs):8.2f}"
            f"{cpu / elements * 1e9:11.2f}"
            f"{median(floor.cpu / run.cpu for run, floor in turns):13.2f}"
            f"{median(floor.wall / run.wall for run, floor in turns):14.2f}",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path, nargs="?")
    arguments.add_argument("--kind", choices=_DTYPES, default="npy")
    arguments.add_argument("--pairs", type=int, default=8)
    arguments.add_argument("--elements", type=int, default=64, help="of each tensor, in millions")
    arguments.add_argument("--runs", type=int, default=3, help="of each program, in turn")
    options = arguments.parse_args()
    elements = options.elements << 20
    with tempfile.TemporaryDirectory(prefix="tensors_", dir=options.folder) as name:
        folder = Path(name)
        write_pairs(folder, options.kind, options.pairs, elements)
        config = folder / "compare.json"
        request = {
            "npu_path": f"{folder}/npu",
            "bench_path": f"{folder}/bench",
            "is_print_compare_log": False,
        }
        config.write_text(json.dumps(request))
        floor, ours = folder / "floor.txt", folder / "ours"
        command = [sys.executable, "-c", _OURS, "-i", str(config), "-o", str(ours), "--quiet"]
        programs = [
            ("floor", [sys.executable, "-c", _FLOOR, str(floor), options.kind, str(folder)], floor),
            ("msprobe-build", command, ours),
        ]
        print(f"{options.pairs} pairs of {elements:,} elements, {options.kind}")
        report(measured(programs, max(1, options.runs)), elements * options.pairs)


if __name__ == "__main__":
    main()
