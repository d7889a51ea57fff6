"""How long the user waits with a file of many steps and ranks, and what the server then holds.

TensorBoard and headless Chromium without GPU, in earnest. The file is made here, of 1,024 ranks x
10 steps of a small model, unless one is given.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Frame, sync_playwright

from viewer import Figure, chromium_path, generate, show, tensorboard
from viewer_browser import SIZE
from viewer_server import memory

FILE = "many.vis.db"
VISITS = 5
GRAPHS = 200
GOAL = 1000
WATCH = """
(() => {
  const look = () => {
    const app = document.querySelector('ga-app');
    if (app?.shadowRoot.querySelector('ga-overview')?.shadowRoot.querySelector('.cell'))
      requestAnimationFrame(() => setTimeout(() => (window.shownAt = performance.now())));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
SINCE_SCRIPTS = """
() => window.shownAt - Math.max(...performance.getEntriesByType('resource')
  .filter(({ name }) => name.endsWith('.js')).map(({ responseEnd }) => responseEnd))
"""
ENTER = """
async ([step, rank]) => {
  const app = document.querySelector('ga-app');
  const start = performance.now();
  await app.session.enter(step, rank);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  if (app.state.view.rank !== rank || !app.state.graphs) throw new Error('another graph');
  return performance.now() - start;
}
"""
ALL_PLACES = """
() => document.querySelector('ga-app').state.catalog.files[0].graphs
  .map(({ step, rank }) => [step, rank])
"""


def open_overview(browser: Browser, address: str) -> tuple[Frame, float, float]:
    """The page, milliseconds until the map was drawn, and how long its process worked for it."""
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce")
    context.add_init_script(WATCH)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(f"{address}#graph_ascend&p.graph_ascend.file={FILE}&p.graph_ascend.page=overview")
    frame = page.wait_for_selector("iframe").content_frame()  # type: ignore[union-attr]
    assert frame is not None
    frame.wait_for_function("window.shownAt", timeout=120_000)
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return frame, frame.evaluate(SINCE_SCRIPTS), found["TaskDuration"] * 1000


def measure(logdir: Path) -> Iterator[Figure]:
    with tensorboard(logdir) as (address, process), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        opened = [open_overview(browser, address) for _ in range(VISITS)]
        for frame, *_ in opened[1:]:
            frame.page.context.close()
        [first, *others] = [time for _, time, _ in opened]
        yield Figure("overview, TensorBoard just started", first, "ms", GOAL)
        yield Figure("overview, new browser", sorted(others)[len(others) // 2], "ms", GOAL)
        work = sorted(work for *_, work in opened)
        yield Figure("work of the page until then", work[len(work) // 2], "ms")
        yield from graphs(opened[0][0], process)
        browser.close()


def graphs(frame: Frame, process: int) -> Iterator[Figure]:
    """Visits to many graphs: how long each takes, and what the server holds meanwhile."""
    places = random.Random(0).sample(frame.evaluate(ALL_PLACES), GRAPHS)
    times, held = [], []
    for place in places:
        times.append(frame.evaluate(ENTER, place))
        held.append(memory(process, "VmRSS") / 1e6)
    yield Figure(f"a graph, the slowest of {GRAPHS}", max(times), "ms", GOAL)
    yield Figure("a graph, the median", sorted(times)[GRAPHS // 2], "ms", GOAL)
    for seen in (GRAPHS // 10, GRAPHS // 2, GRAPHS):
        yield Figure(f"memory of TensorBoard after {seen} graphs", held[seen - 1], "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path, nargs="?")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logdir = Path(folder)
        if options.database:
            shutil.copyfile(options.database, logdir / FILE)
        else:
            shape = ["--ranks", str(options.ranks), "--steps", str(options.steps)]
            generate(logdir / FILE, "--layers", "0", *shape)
        is_met = show(measure(logdir), options.json)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
