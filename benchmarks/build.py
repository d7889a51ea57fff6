"""What a comparison costs: CPU time, memory and file size against the least that is possible.

    python benchmarks/build.py [--nodes 22000 64000 213000] [--ranks 8] [--runs 3]
                               [--reference 26.2.0=PYTHON …]

The inputs are a real pair of dumps, repeated: each copy has other call numbers and statistics, as
later micro-steps would. Every measurement runs in a process of its own and includes its start-up.
All programs run in turn, as often as ``--runs`` says; shown are medians and, of CPU time, the
extremes.

The floor is a program that parses each file of both dumps once and inserts one row per call and
one per tensor into SQLite, without order, hierarchy or comparison. ``--reference`` names a version
of the reference tool and a Python that has it installed; it runs once, as it takes so long.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from result_tables import write_tables

REPOSITORY = Path(__file__).resolve().parent.parent
PAIR = ("llama_statistics_wrong_attention_scale", "llama_statistics")
APART = 1000  # between the call numbers of two copies
# Nobody's modules are compiled anew at every start.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}

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

_REFERENCE = "from msprobe.msprobe import main; main()"
_FORBIDDEN = """
import sys
from msprobe_builder.command.main import main
status = main()
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


def in_own_process(work: Callable[..., object], *arguments: object) -> None:
    """Do what needs much memory elsewhere: what this process once held counts for others, too.

    The peak that the system tells of a program begins with that of the process that started it.
    """
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{work.__name__} failed.")


def repeated(source: Path, target: Path, copies: int) -> None:
    """Write the dump in ``source`` ``copies`` times over."""
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


def renumbered(data: dict[str, Any], copy: int) -> dict[str, Any]:
    """The records under their names in one copy, with its numbers."""
    return {shifted(name, copy) or "": scaled(record, copy) for name, record in data.items()}


def scaled(value: Any, copy: int) -> Any:
    """The value with other statistics in each copy: one that is read must not serve for all."""
    if isinstance(value, list):
        return [scaled(item, copy) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: scaled(item, copy) for key, item in value.items()}
    for key in ("Max", "Min", "Mean", "Norm"):
        if isinstance(number := found.get(key), float) and not number.is_integer():
            found[key] = number * (1 + copy / 1024)
    return found


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
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_ENVIRONMENT
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = os.times().elapsed - clock.elapsed
    if status:
        sys.exit(f"{' '.join(command[:4])} … failed:\n{said.decode(errors='replace')[-2000:]}")
    file = output if output.is_file() else next(output.glob("*.vis.db"))
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, file.stat().st_size)


Program = tuple[str, list[str], Path]  # name, command, the file it makes or the folder of it


def programs(
    folder: Path,
    npu: Path,
    bench: Path,
    floor: list[Path],
    references: dict[str, str],
    workers: int = 0,
) -> Iterator[Program]:
    """Every tool on one pair; with ``workers`` ours also in one process alone."""
    config = folder / "compare.json"
    request = {"npu_path": str(npu), "bench_path": str(bench), "is_print_compare_log": False}
    config.write_text(json.dumps(request))
    database = folder / "floor.db"
    yield "floor", [sys.executable, "-c", _FLOOR, str(database), *map(str, floor)], database
    command = [sys.executable, "-c", _FORBIDDEN, "-i", str(config), "--quiet"]
    ours = folder / "ours"
    yield "msprobe-build", [*command, "-o", str(ours)], ours
    if workers:
        alone = folder / "alone"
        yield "one worker", [*command, "-o", str(alone), "--workers", "1"], alone
    for version, python in references.items():
        theirs = folder / version.replace(".", "_")
        if version.startswith("8."):
            options = ["-f", "pytorch", "graph", "-i", str(config), "-o", str(theirs)]
        else:
            options = ["graph_visualize", "-tp", str(npu), "-gp", str(bench), "-o", str(theirs)]
        yield version, [python, "-c", _REFERENCE, *options], theirs


def measured(all_programs: list[Program], count: int) -> dict[str, list[Cost]]:
    """All in turn; the references once."""
    costs: dict[str, list[Cost]] = {}
    for turn in range(count):
        for name, command, output in all_programs:
            if name[0].isdigit() and turn:
                continue
            if output.suffix:
                output.unlink(missing_ok=True)
            else:
                shutil.rmtree(output, ignore_errors=True)
                output.mkdir()
            costs.setdefault(name, []).append(measure(command, output))
    return costs


def heads(references: Sequence[str]) -> list[str]:
    """The first lines of the table."""
    columns = "".join(f" {version} / CPU |" for version in references)
    return [
        f"| pairs | | CPU s | min–max | wall s | memory MB | file MB | CPU / floor |{columns}",
        f"|--:|---|--:|--:|--:|--:|--:|--:|{'--:|' * len(references)}",
    ]


def lines_of(pairs: str, costs: dict[str, list[Cost]], references: Sequence[str]) -> Iterator[str]:
    """One line for each program; ratios are medians of the ratios of each turn."""
    for name, runs in costs.items():
        cpu = [run.cpu for run in runs]
        ratios = [run.cpu / floor.cpu for run, floor in zip(runs, costs["floor"], strict=False)]
        times = "".join(f" {costs[other][0].cpu / median(cpu):.1f} |" for other in references)
        yield (
            f"| {pairs} | {name} | {median(cpu):.2f} | {min(cpu):.2f}–{max(cpu):.2f} "
            f"| {median(run.wall for run in runs):.2f} "
            f"| {median(run.memory for run in runs) / 1e6:,.0f} "
            f"| {runs[-1].file / 1e6:.1f} | {median(ratios):.2f} |{times}"
        )


def copied(folder: Path, nodes: int, ranks: int) -> tuple[int, tuple[Path, Path], list[Path]]:
    """A pair of dumps of about so many calls, the same on each rank; what the floor is to read."""
    npu, bench = (folder / dump / "step0" / "rank" for dump in PAIR)
    calls = len(json.loads((npu / "construct.json").read_text()))
    pair = folder / f"{nodes}_{ranks}"
    sides = pair / "npu", pair / "bench"
    copies = max(1, round(nodes / calls))
    for source, side in zip((npu, bench), sides, strict=True):
        in_own_process(repeated, source, side / "rank0", copies)
        for rank in range(1, ranks):
            (side / f"rank{rank}").symlink_to(side / "rank0")
    return copies * calls, sides, [side / f"rank{rank}" for rank in range(ranks) for side in sides]


def main() -> None:
    """Measure and print, and with ``--write`` put the table among the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, nargs="*", default=[22_000, 64_000, 213_000])
    arguments.add_argument("--ranks", type=int, default=8, help="0 leaves the ranks out")
    arguments.add_argument("--runs", type=int, default=3, help="of each program, in turn")
    arguments.add_argument("--reference", action="append", default=[], metavar="VERSION=PYTHON")
    arguments.add_argument("--write", action="store_true", help="into results/performance.md")
    options = arguments.parse_args()
    references = dict(one.split("=", 1) for one in options.reference)
    table = heads(list(references))
    print("\n".join(table))
    sizes = [(nodes, 1) for nodes in options.nodes]
    if options.ranks:
        sizes += [(700, options.ranks), (22_000, options.ranks)]
    with tempfile.TemporaryDirectory(prefix="build_benchmark_") as name:
        folder = Path(name)
        for dump in PAIR:
            with tarfile.open(REPOSITORY / "tests" / "data" / f"{dump}.tar.xz") as packed:
                packed.extractall(folder, filter="data")
        for nodes, ranks in sizes:
            made, sides, floor = copied(folder, nodes, ranks)
            workers = 1 if ranks > 1 else 0
            found = programs(sides[0].parent, *sides, floor, references, workers)
            pairs = f"{made:,}" if ranks == 1 else f"{ranks} × {made:,}"
            costs = measured(list(found), max(1, options.runs))
            table += lines_of(pairs, costs, list(references))
            print("\n".join(table[-len(costs) :]), flush=True)
            shutil.rmtree(sides[0].parent)
    if options.write:
        write_tables("performance.md", "Comparing", [table])


if __name__ == "__main__":
    main()
