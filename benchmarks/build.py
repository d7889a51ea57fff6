"""What a comparison costs: CPU time, memory and file size against the least that is possible.

    python benchmarks/build.py [--nodes 22000 70000 200000] [--ranks 4] [--reference PYTHON]

The inputs are a real pair of dumps, repeated: each copy has other call numbers, as later
micro-steps would. Every measurement runs in a process of its own and includes its start-up.

The floor is a program that parses each file of both dumps once and inserts one row per call and
one per tensor into SQLite, without order, hierarchy or comparison. ``--reference`` names a Python
that has the reference tool (msprobe 8.x) installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PAIR = ("llama_statistics_wrong_attention_scale", "llama_statistics")
APART = 1000  # between the call numbers of two copies

_FLOOR = """
import gc, json, sqlite3, sys
gc.disable()
out = sqlite3.connect(sys.argv[1])
out.execute("CREATE TABLE call (name TEXT, parent TEXT)")
out.execute("CREATE TABLE tensor (call TEXT, dtype TEXT, shape TEXT, max, min, mean, norm)")

def tensors(name, value):
    if isinstance(value, list):
        for item in value:
            yield from tensors(name, item)
    elif isinstance(value, dict) and "Max" in value:
        shape = str(value["shape"])
        numbers = (value["Max"], value["Min"], value["Mean"], value["Norm"])
        yield (name, value["dtype"], shape, *numbers)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(name, item)

for directory in sys.argv[2:]:
    with open(f"{directory}/construct.json") as file:
        out.executemany("INSERT INTO call VALUES (?, ?)", json.load(file).items())
    with open(f"{directory}/stack.json") as file:
        json.load(file)
    with open(f"{directory}/dump.json") as file:
        data = json.load(file)["data"]
    for name, record in data.items():
        rows = tensors(name, record)
        out.executemany("INSERT INTO tensor VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    data = None
out.commit()
"""

_FORBIDDEN = """
import sys
from msprobe_builder.command.main import main
status = main(sys.argv[1:])
loaded = [name for name in ("torch", "pandas") if name in sys.modules]
sys.exit(f"{loaded} imported" if loaded else status)
"""


@dataclass(frozen=True)
class Cost:
    """One run: seconds of CPU and of the clock, bytes of the largest process and of the file."""

    cpu: float
    wall: float
    memory: int
    file: int


def repeated(source: Path, target: Path, copies: int) -> int:
    """Write the dump in ``source`` ``copies`` times over; returns the number of calls."""
    dump, construct, stack = (
        json.loads((source / f"{name}.json").read_text()) for name in ("dump", "construct", "stack")
    )
    dump["data"] = {
        name: record
        for copy in range(copies)
        for name, record in renumbered(dump["data"], copy).items()
    }
    construct = {
        shifted(name, copy): shifted(parent, copy)
        for copy in range(copies)
        for name, parent in construct.items()
    }
    stack = {
        key: [[shifted(name, copy) for copy in range(copies) for name in names], lines]
        for key, (names, lines) in stack.items()
    }
    target.mkdir(parents=True)
    for name, content in (("dump", dump), ("construct", construct), ("stack", stack)):
        with (target / f"{name}.json").open("w") as file:
            json.dump(content, file, indent=1)
    return len(construct)


def renumbered(data: dict[str, Any], copy: int) -> dict[str, Any]:
    """The records under their names in one copy."""
    return {shifted(name, copy) or "": record for name, record in data.items()}


def shifted(name: str | None, copy: int) -> str | None:
    """The name of a call in one copy: another call number, wherever it stands."""
    if name is None or copy == 0:
        return name
    stem, middle, last = name.rsplit(".", 2) if name.count(".") > 1 else (name, "", "")
    if middle.isdecimal():
        return f"{stem}.{int(middle) + copy * APART}.{last}"
    if last.isdecimal():
        return f"{stem}.{middle}.{int(last) + copy * APART}"
    return name


def measure(command: list[str], output: Path) -> Cost:
    """Run a command in a process of its own; ``output`` is a file, or a directory with one."""
    clock = os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = os.times().elapsed - clock.elapsed
    if status:
        sys.exit(f"{' '.join(command[:4])} … failed:\n{said.decode(errors='replace')[-2000:]}")
    file = output if output.is_file() else next(output.glob("*.vis.db"))
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, file.stat().st_size)


def runs(
    folder: Path, npu: Path, bench: Path, floor: list[Path], reference: str | None
) -> Iterator[tuple[str, Cost]]:
    """Every tool on one pair."""
    config = folder / "compare.json"
    request = {"npu_path": str(npu), "bench_path": str(bench), "is_print_compare_log": False}
    config.write_text(json.dumps(request))
    database = folder / "floor.db"
    command = [sys.executable, "-c", _FLOOR, str(database), *map(str, floor)]
    yield "floor", measure(command, database)
    ours = folder / "ours"
    command = [sys.executable, "-c", _FORBIDDEN, "-i", str(config), "-o", str(ours), "--quiet"]
    yield "msprobe-build", measure(command, ours)
    if reference is not None:
        theirs = folder / "reference"
        theirs.mkdir()
        start = "from msprobe.msprobe import main; main()"
        options = ["-f", "pytorch", "graph", "-i", str(config), "-o", str(theirs)]
        yield "reference", measure([reference, "-c", start, *options], theirs)


def report(title: str, results: Iterator[tuple[str, Cost]]) -> None:
    """Print one table; times and sizes as multiples of the floor, too."""
    print(f"\n{title}")
    print(f"  {'':14}{'CPU s':>8}{'wall s':>8}{'memory MB':>11}{'file MB':>9}{'CPU / floor':>13}")
    floor = None
    for name, cost in results:
        floor = floor or cost
        print(
            f"  {name:14}{cost.cpu:8.2f}{cost.wall:8.2f}{cost.memory / 2**20:11,.0f}"
            f"{cost.file / 2**20:9.1f}{cost.cpu / floor.cpu:13.2f}",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, nargs="*", default=[22_000, 70_000, 200_000])
    arguments.add_argument("--ranks", type=int, default=4, help="0 leaves the ranks out")
    arguments.add_argument("--reference", metavar="PYTHON", help="a Python with msprobe 8.x")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="build_benchmark_") as name:
        folder = Path(name)
        for dump in PAIR:
            with tarfile.open(REPOSITORY / "tests" / "data" / f"{dump}.tar.xz") as packed:
                packed.extractall(folder, filter="data")
        npu, bench = (folder / dump / "step0" / "rank" for dump in PAIR)
        calls = len(json.loads((npu / "construct.json").read_text()))
        for nodes in options.nodes:
            pair = folder / str(nodes)
            copies = max(1, round(nodes / calls))
            made = repeated(npu, pair / "npu", copies)
            repeated(bench, pair / "bench", copies)
            both = [pair / "npu", pair / "bench"]
            results = runs(pair, both[0], both[1], both, options.reference)
            report(f"{made:,} pairs of calls, one rank", results)
        if options.ranks:
            pair = folder / "ranks"
            copies = max(1, round(22_000 / calls))
            made = repeated(npu, pair / "npu" / "rank0", copies)
            repeated(bench, pair / "bench" / "rank0", copies)
            for rank in range(1, options.ranks):
                for side in ("npu", "bench"):
                    (pair / side / f"rank{rank}").symlink_to(pair / side / "rank0")
            sides = (pair / "npu", pair / "bench")
            floor = [side / f"rank{rank}" for rank in range(options.ranks) for side in sides]
            results = runs(pair, *sides, floor, options.reference)
            report(f"{made:,} pairs of calls on each of {options.ranks} ranks", results)


if __name__ == "__main__":
    main()
