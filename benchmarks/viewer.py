"""How long the user waits in the viewer: TensorBoard and headless Chromium without GPU, in earnest.

Prints every figure with its target. The file is made here (213,000 pairs of nodes, one collection
of 10,000 calls) unless one of generate_database.py is given; it is copied, and matched by hand.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from viewer_browser import Opened, measure_graph, open_viewer
from viewer_server import Asked, measure_server

HERE = Path(__file__).parent
FIND_CHROMIUM = HERE.parent / "scripts" / "find_chromium"
LARGE, SMALL = "large.vis.db", "small.vis.db"
VISITS = 4
USUAL_NODES = 250_000  # a side; what is larger may take longer to open


@dataclass(frozen=True)
class Figure:
    """What was measured, and what it should be: at most, or at least, the target."""

    name: str
    value: float | None  # None where there was no answer
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def is_met(self) -> bool | None:
        """None where there is no target."""
        if self.target is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.target if self.at_least else self.value <= self.target


def generate(path: Path, *options: str) -> None:
    command = [sys.executable, str(HERE / "generate_database.py"), "-o", str(path), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def tensorboard(logdir: Path) -> Iterator[tuple[str, int]]:
    """Address and process id of a TensorBoard on a free port."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir)]
    process = subprocess.Popen(
        [*command, "--host", "localhost", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = (re.search(r"at (http://\S+)", line) for line in process.stdout)
        address = next((match[1].rstrip("/") + "/" for match in found if match), None)
        if address is None:
            raise SystemExit("TensorBoard did not start; is it installed here?")
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def chromium_path() -> str:
    found = subprocess.run([FIND_CHROMIUM], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def measure(logdir: Path) -> Iterator[Figure]:
    with tensorboard(logdir) as (address, process), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield from visits(browser, address)
        yield from graph_figures(browser, address)
        browser.close()
        yield from server_figures(measure_server(address, LARGE, process))


def visits(browser: Browser, address: str) -> Iterator[Figure]:
    """Opening the file by people who come for the first time, and again."""
    first, *others = (open_viewer(browser, address, LARGE) for _ in range(VISITS))
    target = 800 if first.nodes <= USUAL_NODES else 2500
    yield Figure("nodes of the debug side", first.nodes, "nodes")
    yield Figure("first graph, TensorBoard just started", first.seconds * 1000, "ms", target)
    yield Figure("first graph, new browser", best_ms(others), "ms", target)
    whole = sorted(visit.whole for visit in others)[len(others) // 2]
    yield Figure("the same since the tab's page began", whole * 1000, "ms")
    again = [first.reload() for _ in range(VISITS)]
    if any(visit.skeleton_bytes for visit in again):
        raise SystemExit("A reload fetched the hierarchy again: the ETag has no effect.")
    yield Figure("first graph, reload", best_ms(again), "ms", target)
    yield Figure("hierarchies on the wire", first.skeleton_bytes / 1e6, "MB")
    yield Figure("file", first.file_bytes / 1e6, "MB")
    yield Figure("memory of the page", first.memory_bytes() / 1e6, "MB", 150)
    small = [open_viewer(browser, address, SMALL) for _ in range(VISITS)]
    yield Figure("first graph of a small model", best_ms(small), "ms", 300)
    for visit in (first, *others, *small):
        visit.close()


def best_ms(visits: list[Opened]) -> float:
    return sorted(visit.seconds for visit in visits)[len(visits) // 2] * 1000


def graph_figures(browser: Browser, address: str) -> Iterator[Figure]:
    found = measure_graph(browser, address, LARGE)
    yield Figure(f"open {found.wide_children:,} children, both sides", found.open_wide, "ms", 50)
    yield Figure("unfold everything", found.expand_all, "ms")
    yield Figure("rows then", found.rows, "rows", 200_000, at_least=True)
    for name, speed in found.speeds.items():
        yield Figure(f"{name}, all unfolded", speed.frames_per_second, "frames/s", 55, True)
        yield Figure(f"{name}: work per frame", speed.busy, "ms")
    yield Figure("next hit (95 %)", found.next_hit, "ms", 30)
    yield Figure("search as you type", found.search, "ms", 100)
    yield Figure("memory of the page, all unfolded", found.unfolded_bytes / 1e6, "MB", 150)


def server_figures(asked: Asked) -> Iterator[Figure]:
    yield Figure("details of a node (95 %)", asked.node, "ms", 10)
    yield Figure("search all graphs by name", asked.search, "ms")
    yield Figure("search all graphs by expression", asked.expression, "ms", 500)
    yield Figure(f"match a subtree of {asked.subtree} nodes", asked.match, "ms", 200)
    yield Figure("undo it", asked.undo, "ms", 200)
    yield Figure("candidates for a node (95 %)", asked.candidates, "ms", 200)
    yield Figure("memory of TensorBoard, at most", asked.memory_bytes / 1e6, "MB")


def show(figures: Iterator[Figure], as_json: bool) -> bool:
    """Print the figures as they come; whether all targets are met."""
    found = []
    for figure in figures:
        found.append(figure)
        if as_json:
            continue
        bound = (
            "" if figure.target is None else f"{'≥' if figure.at_least else '≤'} {figure.target:g}"
        )
        verdict = {True: "met", False: "MISSED", None: ""}[figure.is_met]
        value = figure.value
        digits = 0 if value is not None and value >= 100 else 1
        number = "none" if value is None else f"{value:,.{digits}f}"
        print(f"{figure.name:42} {number:>9} {figure.unit:9} {bound:>9}  {verdict}", flush=True)
    if as_json:
        print(json.dumps([asdict(one) | {"met": one.is_met} for one in found], indent=1))
    return all(figure.is_met is not False for figure in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "database", type=Path, nargs="?", help="made by generate_database.py --wide"
    )
    parser.add_argument(
        "--nodes", type=int, default=213_000, help="of the file that is made, a side"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logdir = Path(folder)
        if options.database:
            shutil.copyfile(options.database, logdir / LARGE)
        else:
            generate(logdir / LARGE, "--nodes", str(options.nodes), "--wide", "10000", "--overflow")
        generate(logdir / SMALL, "--layers", "0")
        is_met = show(measure(logdir), options.json)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
