"""What other names cost: a build of two sides whose names differ, beside one whose names agree.

    PYTHONPATH=. python benchmarks/alignment.py [--nodes 20000 200000] [--deep]

The inputs are a real dump, repeated: as later micro-steps, or with ``--deep`` as more layers of
one micro-step. The other side is the same under names that share no word with its own, then
also with 3 % fewer calls and 3 % more casts, and without statistics.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from build import APART, REPOSITORY, Cost, in_own_process, measure, repeated
from msprobe_builder.dump.names import format_name, parse_name
from tests.alignment.respell import (
    Change,
    Recording,
    added_casts,
    chained,
    dropped_calls,
    other_attributes,
    other_classes,
    recording,
    without_statistics,
)

DUMP = "llama_statistics"
LAYER = "model.layers.0."
RENAMED = chained(other_classes, other_attributes)
KINDS: dict[str, tuple[Change | None, Change | None]] = {
    "equal names": (None, None),
    "other names": (RENAMED, None),
    "other names, uneven": (chained(RENAMED, dropped_calls(0.03, 3), added_casts(0.03, 4)), None),
    "other names, structure": (chained(RENAMED, without_statistics), without_statistics),
}


def deepened(source: Path, target: Path, copies: int) -> None:
    """Write the dump with its first layer ``copies`` times over, one after the other."""
    before = recording(source)
    above = {name: up[0] if isinstance(up, list) else up for name, up in before.parent.items()}

    def in_layer(name: str) -> bool:
        current: Any = name
        while isinstance(current, str):
            if LAYER in current:
                return True
            current = above.get(current)
        return False

    def copied(name: str, copy: int) -> str:
        name = name.replace(LAYER, LAYER.replace("0", str(copy + 1000))) if copy else name
        if LAYER.rstrip(".0") in name and name.startswith("Module."):
            return name
        parsed = parse_name(name)
        return format_name(parsed._replace(call=parsed.call + copy * APART))

    def spread(items: dict[str, Any], new: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        block: list[str] = []
        for name in [*items, ""]:
            if name and in_layer(name):
                block.append(name)
                continue
            numbers = range(copies) if not block or "forward" in block[0] else range(copies)[::-1]
            for copy in numbers:
                result |= {copied(one, copy): new(items[one], copy) for one in block}
            block = []
            if name:
                result[name] = items[name]
        return result

    def moved(up: Any, copy: int) -> Any:
        if isinstance(up, list):
            return [moved(up[0], copy), *up[1:]]
        return copied(up, copy) if isinstance(up, str) and in_layer(up) else up

    data = spread(before.data, lambda record, _: record)
    write(target, Recording(before.head, data, spread(before.parent, moved), {}))


def write(target: Path, content: Recording) -> None:
    """Write a recording as the files of a dump."""
    target.mkdir(parents=True)
    # As collectors write it, a value on each line: other layouts are slower to read.
    (target / "dump.json").write_text(json.dumps({**content.head, "data": content.data}, indent=1))
    (target / "construct.json").write_text(json.dumps(content.parent, indent=1))
    (target / "stack.json").write_text("{}")


def changed(source: Path, target: Path, change: Change) -> None:
    """Write the dump in ``source`` as it is after a change."""
    write(target, change(recording(source)))


def build(folder: Path, npu: Path, bench: Path) -> Cost:
    """The cost of a whole build."""
    request = {"npu_path": str(npu), "bench_path": str(bench), "is_print_compare_log": False}
    (folder / "compare.json").write_text(json.dumps(request))
    output = folder / "built"
    command = [sys.executable, "-m", "msprobe_builder", "-i", str(folder / "compare.json")]
    cost = measure([*command, "-o", str(output), "--quiet"], output)
    for file in output.iterdir():
        file.unlink()
    return cost


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, nargs="*", default=[20_000, 200_000])
    arguments.add_argument("--deep", action="store_true", help="layers instead of micro-steps")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="alignment_benchmark_") as name:
        folder = Path(name)
        with tarfile.open(REPOSITORY / "tests" / "data" / f"{DUMP}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        source = min((folder / DUMP / "step0").glob("rank*"))
        calls = len(json.loads((source / "construct.json").read_text()))
        for nodes in options.nodes:
            plain = folder / str(nodes)
            copies = max(1, round(nodes / calls * (2.5 if options.deep else 1)))
            in_own_process(deepened if options.deep else repeated, source, plain, copies)
            first = None
            for kind, (change, other) in KINDS.items():
                sides = []
                for side, one in (("npu", change), ("bench", other)):
                    sides.append(plain)
                    if one is not None:
                        sides[-1] = folder / f"{nodes} {kind} {side}"
                        in_own_process(changed, plain, sides[-1], one)
                cost = build(folder, *sides)
                first = first or cost
                with (sides[0] / "construct.json").open() as file:
                    made = sum(1 for _ in file) - 2  # a line for each and two braces
                print(
                    f"{made:8,} nodes  {kind:24}{cost.cpu:8.1f} s {cost.cpu / first.cpu:6.2f}"
                    f"{cost.memory / 2**20:8,.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
