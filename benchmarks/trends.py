"""How the page of trends bears 10⁷ values: TensorBoard and headless Chromium, without GPU.

Prints every figure with its target. The file is made here: 1,250 tensors × 8 ranks × 1,000 steps,
each with all six statistics.
"""

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from msprobe_builder.database.trends.open import STATISTICS
from msprobe_builder.database.trends.write import Target, TrendWriter
from viewer import Figure, chromium_path, generate, show, tensorboard
from viewer_browser import Opened, open_viewer, speed
from viewer_server import memory

SMALL = "small.vis.db"
FIRST, SECOND = "first.trend.db", "second.trend.db"
RANKS, STEPS = 8, 1000
VISITS = 3
TOOLS = """
(() => {
  const trend = document.querySelector('ga-app').shadowRoot.querySelector('ga-toolbar')
    .shadowRoot.querySelector('ga-trend');
  const part = (id) => trend.shadowRoot.getElementById(id);
  const drawn = () => new Promise((done) =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
  const shows = async (is) => { while (!(trend.scene && is(trend.scene))) await drawn(); };
  const after = async (action, is) => {
    await drawn();
    const start = performance.now();
    action();
    await shows(is);
    return await drawn() - start;
  };
  const choose = (id, value) => {
    part(id).value = value;
    part(id).dispatchEvent(new Event('change'));
  };
  const wheel = (given) => {
    const box = part('canvas').getBoundingClientRect();
    part('canvas').dispatchEvent(new WheelEvent('wheel', {
      bubbles: true, composed: true, cancelable: true,
      clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, ...given }));
  };
  const moves = {
    pan: (seen) => (part('map').scrollTop += seen % 240 < 120 ? 37 : -37),
    zoom: (seen) => wheel({ deltaY: seen % 24 < 12 ? -20 : 20, ctrlKey: true }),
    slide: (seen) => wheel({ deltaX: seen % 120 < 60 ? 20 : -20 }),
    curve: (seen) => part('canvas').dispatchEvent(new KeyboardEvent('keydown', {
      key: seen % 40 < 20 ? 'ArrowDown' : 'ArrowUp', bubbles: true, cancelable: true })),
  };
  window.measuring = {
    open: () => after(() => part('open').click(), () => true),
    minus: (file) => after(() => choose('other', file), ({ other }) => other === file),
    hold: (what, rows) => after(() => choose('fixed', what), ({ names }) => names.length === rows),
    zoomIn: (count) => after(
      () => { for (let one = 0; one < count; one++) wheel({ deltaY: -20, ctrlKey: true }); },
      ({ columns }) => columns.at(-1) - columns[0] < 500),
    frames: (kind, count) => new Promise((done) => {
      let first = 0, seen = 0;
      const step = (now) => {
        first ||= now;
        if (seen === count) return done(1000 * count / (now - first));
        moves[kind](seen++);
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    }),
    asked: () => performance.getEntriesByType('resource')
      .filter(({ name }) => name.includes('/trend_values?'))
      .map(({ encodedBodySize, duration }) => [encodedBodySize, duration]),
  };
  performance.setResourceTimingBufferSize(10000);
})();
"""


def write_trend(path: Path, values: int, seed: int) -> None:
    """One outlier in a thousand values; the other file differs from step 400 on."""
    random = np.random.default_rng(seed)
    targets = values // (RANKS * STEPS)
    steps = np.tile(np.arange(STEPS), targets)
    ids = np.repeat(np.arange(targets), STEPS)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        writer = TrendWriter(connection)
        for at in range(targets):
            name = f"layers.{at // 10}.mlp.part{at % 10}.weight"
            writer.target(Target("weight", name, name.removesuffix(".weight"), None))
        base = np.random.default_rng(0).lognormal(size=(len(ids), len(STATISTICS)))
        for rank in range(RANKS):
            table = base * (1 + 1e-3 * rank)
            table[steps >= 400] *= 1 + 0.1 * seed
            table[random.random(len(table)) < 1e-3] *= 1000
            writer.values(rank, steps, ids, table)
        writer.finish({"kind": "monitor", "source": "benchmark"})


def measure(logdir: Path, rows: int) -> Iterator[Figure]:
    yield Figure("values of each statistic", rows, "values")
    yield Figure("file", (logdir / FIRST).stat().st_size / 1e6, "MB")
    with tensorboard(logdir) as (address, process), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        open_page(browser, address)[0].close()  # the graph's part of TensorBoard is loaded
        before = memory(process, "VmHWM")
        first, seconds = open_page(browser, address, is_opened=True)
        first.close()
        yield Figure("first picture, nobody asked before", seconds * 1000, "ms", 2000)
        again = [open_page(browser, address, is_opened=True) for _ in range(VISITS)]
        yield Figure("first picture, new browser", sorted(one for _, one in again)[1] * 1000, "ms")
        for visit, _ in again[1:]:
            visit.close()
        yield from page_figures(again[0][0])
        browser.close()
        after = memory(process, "VmHWM")
        yield Figure("memory of TensorBoard, at most, before", before / 1e6, "MB")
        yield Figure("and after all this", after / 1e6, "MB")


def open_page(browser: Browser, address: str, is_opened: bool = False) -> tuple[Opened, float]:
    visit = open_viewer(browser, address, SMALL)
    visit.frame.evaluate(TOOLS)
    return visit, visit.frame.evaluate("measuring.open()") / 1000 if is_opened else 0.0


def page_figures(visit: Opened) -> Iterator[Figure]:
    frame = visit.frame
    for name, kind in (("heat map: pan over tensors", "pan"), ("zoom steps", "zoom")):
        yield from moving(visit, name, kind)
    yield Figure("zoom in, until it is drawn", frame.evaluate("measuring.zoomIn(6)"), "ms", 1000)
    yield from moving(visit, "pan over steps", "slide")
    yield from moving(visit, "curves: from row to row", "curve")
    yield Figure("minus another run", frame.evaluate(f"measuring.minus({SECOND!r})"), "ms", 2000)
    yield from moving(visit, "difference: pan over tensors", "pan")
    hold = frame.evaluate(f"measuring.hold('target', {RANKS})")
    yield Figure("hold the tensor: steps × ranks", hold, "ms", 2000)
    asked = frame.evaluate("measuring.asked()")
    sizes, times = zip(*((size, time) for size, time in asked if size), strict=True)
    yield Figure("answers", len(sizes), "requests")
    yield Figure("the largest", max(sizes) / 1e3, "kB", 1000)
    yield Figure("an answer (median)", sorted(times)[len(times) // 2], "ms")
    yield Figure("memory of the page", visit.memory_bytes() / 1e6, "MB")


def moving(visit: Opened, name: str, kind: str) -> Iterator[Figure]:
    found = speed(visit, kind)
    yield Figure(name, found.frames_per_second, "frames/s", 55, True)
    yield Figure(f"{name}: work per frame", found.busy, "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=10_000_000, help="of each statistic")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = max(1, options.values // (RANKS * STEPS)) * RANKS * STEPS
    with tempfile.TemporaryDirectory() as folder:
        logdir = Path(folder)
        generate(logdir / SMALL, "--layers", "0")
        for seed, name in enumerate((FIRST, SECOND)):
            write_trend(logdir / name, rows, seed)
        is_met = show(measure(logdir, rows), options.json)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
