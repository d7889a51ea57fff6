"""The viewer in Chromium: from the address to the first graph, and what happens under the hand.

Times end when the frame that shows the change has been drawn.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Frame, Page, ViewportSize

SIZE: ViewportSize = {"width": 1440, "height": 900}
OPENINGS = 5
HITS = 40
WATCH = """
(() => {
  const look = () => {
    if (document.querySelector('ga-app')?.state?.graphs)
      requestAnimationFrame(() => setTimeout(() => (window.shownAt = performance.now())));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
TOOLS = """
(() => {
  const drawn = () => new Promise((done) =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
  const app = document.querySelector('ga-app');
  const hierarchy = app.shadowRoot.querySelector('ga-hierarchy');
  const tree = hierarchy.shadowRoot.querySelector("#canvas > [tabindex='0']");
  const after = async (action) => {
    await drawn();
    const start = performance.now();
    action();
    return await drawn() - start;
  };
  const press = (target, key) => target.dispatchEvent(
    new KeyboardEvent('keydown', { key, bubbles: true, composed: true, cancelable: true }));
  const wheel = (deltaY, ctrlKey) => {
    const box = tree.getBoundingClientRect();
    tree.querySelector('canvas').dispatchEvent(new WheelEvent('wheel', {
      deltaY, ctrlKey, bubbles: true, composed: true, cancelable: true,
      clientX: box.x + box.width / 4, clientY: box.y + box.height / 2 }));
  };
  window.measuring = {
    rows: () => hierarchy.view.hierarchy.rows.count,
    run: (command) => after(() => hierarchy.run(command)),
    key: (key) => after(() => press(tree, key)),
    nextHit: () => after(() => press(document.body, 'n')),
    focusSearch: async () => {
      app.focusSearch();
      await new Promise((done) => setTimeout(done));
      await drawn();
    },
    type: (text) => after(() => app.session.finding.change({ text, scope: 'graph' })),
    frames: (kind, count) => new Promise((done) => {
      let first = 0, seen = 0;
      const step = (now) => {
        first ||= now;
        if (seen === count) return done(1000 * count / (now - first));
        seen++;
        if (kind === 'pan') wheel(37, false);
        else wheel(seen % 120 < 60 ? 20 : -20, true);
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    }),
  };
})();
"""


@dataclass(frozen=True)
class Opened:
    """A page that shows the graph; seconds since the viewer's scripts were there, and in all."""

    page: Page
    frame: Frame
    seconds: float
    whole: float  # since the tab's page began, scripts included
    skeleton_bytes: int  # that crossed the wire; 0 when the browser had them already
    file_bytes: int
    nodes: int  # of the debug side

    def reload(self) -> "Opened":
        self.page.reload()
        return opened(self.page)

    def memory_bytes(self) -> int:
        """What scripts hold, typed arrays included: most of a graph lies there, beside the heap."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        usage = session.send("Runtime.getHeapUsage")
        return int(usage["usedSize"] + usage["backingStorageSize"])

    def close(self) -> None:
        self.page.context.close()


@dataclass(frozen=True)
class Speed:
    frames_per_second: float
    busy: float  # milliseconds of the page's main thread per frame


@dataclass(frozen=True)
class GraphTimes:
    """Milliseconds, of the next hit such that 95 % take less."""

    wide_children: int
    open_wide: float
    expand_all: float
    rows: int
    speeds: dict[str, Speed]
    search: float
    next_hit: float
    unfolded_bytes: int  # that the page holds with everything unfolded


def open_viewer(browser: Browser, address: str, file: str, **view: str) -> Opened:
    """A new browser profile that comes to the file for the first time."""
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce")
    context.add_init_script(WATCH)
    page = context.new_page()
    place = {"file": file, "step": "0", "rank": "0", **view}
    page.goto(
        f"{address}#graph_ascend&{urlencode({f'p.graph_ascend.{k}': place[k] for k in place})}"
    )
    return opened(page)


def opened(page: Page) -> Opened:
    element = page.wait_for_selector("iframe")
    frame = element.content_frame() if element else None
    assert frame is not None
    frame.wait_for_function("window.shownAt", timeout=120_000)
    found: dict[str, Any] = frame.evaluate(
        """() => {
          const loaded = performance.getEntriesByType('resource');
          const scripts = loaded.filter(({ name }) => name.endsWith('.js'));
          const skeletons = loaded.filter(({ name }) => name.includes('/skeleton?'));
          const isNew = ({ transferSize, encodedBodySize }) => transferSize >= encodedBodySize;
          const app = document.querySelector('ga-app');
          const shown = app.state.catalog.files.find(({ file }) => file === app.state.view.file);
          return {
            whole: window.shownAt,
            time: window.shownAt - Math.max(...scripts.map(({ responseEnd }) => responseEnd)),
            bytes: skeletons.filter(isNew).reduce((sum, one) => sum + one.encodedBodySize, 0),
            file: Number(shown.size),
            nodes: app.state.graphs[0].count,
          };
        }"""
    )
    seconds, whole = found["time"] / 1000, found["whole"] / 1000
    return Opened(page, frame, seconds, whole, found["bytes"], found["file"], found["nodes"])


def measure_graph(browser: Browser, address: str, file: str) -> GraphTimes:
    visit = open_viewer(browser, address, file)
    frame = visit.frame
    wide = widest(frame)
    visit.close()
    visit = open_viewer(browser, address, file, node=wide["name"])
    frame = visit.frame
    frame.locator("ga-node-summary h2", has_text=wide["name"]).wait_for()
    frame.evaluate(TOOLS)
    frame.evaluate("measuring.run('collapse-all')")
    times = [open_and_close(frame, wide) for _ in range(OPENINGS)]
    expand_all = frame.evaluate("measuring.run('expand-all')")
    rows = frame.evaluate("measuring.rows()")
    unfolded_bytes = visit.memory_bytes()
    frame.evaluate("measuring.run('reading-size')")
    speeds = {"pan": speed(visit, "pan"), "zoom": speed(visit, "zoom")}
    frame.evaluate("measuring.run('fit')")
    speeds["pan over all, zoomed out"] = speed(visit, "pan")
    frame.evaluate("measuring.run('reading-size')")
    frame.evaluate("measuring.run('collapse-all')")
    frame.evaluate("measuring.focusSearch()")  # as who types does before
    search = frame.evaluate("measuring.type('q_proj.linear.backward')")
    hits = sorted(frame.evaluate("measuring.nextHit()") for _ in range(HITS))
    return GraphTimes(
        wide_children=wide["children"],
        open_wide=sorted(times)[OPENINGS // 2],
        expand_all=expand_all,
        rows=rows,
        speeds=speeds,
        search=search,
        next_hit=hits[int(0.95 * (HITS - 1))],
        unfolded_bytes=unfolded_bytes,
    )


def widest(frame: Frame) -> dict[str, Any]:
    """The matched node with the most children."""
    found: dict[str, Any] = frame.evaluate(
        """() => {
          const [graph] = document.querySelector('ga-app').state.graphs;
          const children = new Int32Array(graph.count);
          for (let node = 1; node < graph.count; node++) children[graph.parent[node]]++;
          const matched = [...children.keys()].filter((node) => node && graph.partner[node] >= 0);
          const node = matched.reduce((most, one) => (children[one] > children[most] ? one : most));
          return { name: graph.name(node), children: children[node] };
        }"""
    )
    return found


def open_and_close(frame: Frame, wide: dict[str, Any]) -> float:
    before = frame.evaluate("measuring.rows()")
    taken: float = frame.evaluate("measuring.key('Enter')")
    if frame.evaluate("measuring.rows()") - before < wide["children"]:
        raise SystemExit(f"{wide['name']} did not open.")
    frame.evaluate("measuring.key('Enter')")
    return taken


def speed(visit: Opened, kind: str) -> Speed:
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("Performance.enable")

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    count, before = 240, busy()
    frames_per_second = visit.frame.evaluate(f"measuring.frames({kind!r}, {count})")
    return Speed(frames_per_second, (busy() - before) * 1000 / count)
