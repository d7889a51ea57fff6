/**
 * A page with nothing but the hierarchy and a made-up model, to look at and to measure.
 * Parameters: layers, steps, wide, theme, single. `measure.py` drives it.
 */
import { Graph } from '../src/data/graph';
import { HierarchyView } from '../src/canvas/view';
import { Search } from '../src/data/search';
import { Side } from '../src/generated/graph_pb';
import { llamaPair } from '../test/core/llama';
import { encodePair } from '../test/core/synthetic';

const parameters = new URLSearchParams(location.search);
const number = (name: string, fallback: number) => Number(parameters.get(name) ?? fallback);

const [npu, bench] = llamaPair({
  layers: number('layers', 8),
  steps: number('steps', 1),
  wide: number('wide', 0),
});
const [npuBytes, benchBytes] = encodePair(npu, parameters.has('single') ? null : bench);
const timings: Record<string, number> = {};

function timed<T>(name: string, action: () => T): T {
  const start = performance.now();
  const result = action();
  timings[name] = performance.now() - start;
  return result;
}

const view = new HierarchyView(document.querySelector<HTMLElement>('#host')!);
view.setTheme(parameters.get('theme') === 'dark' ? 'dark' : 'light');
const graphs = timed(
  'decode both sides',
  () => [Graph.decode(npuBytes), benchBytes && Graph.decode(benchBytes)] as const,
);
timed('first layout', () => view.setGraphs(...graphs));
view.draw();
Object.assign(window, { view, graphs, timings, timed });

/** Moves the view once per frame for a while; the frames per second that came of it. */
function frames(move: (frame: number) => void, count = 120): Promise<Record<string, number>> {
  return new Promise((resolve) => {
    const stamps: number[] = [];
    const busy: number[] = [];
    const step = (now: number) => {
      stamps.push(now);
      if (stamps.length > count) {
        const gaps = stamps.slice(1).map((stamp, index) => stamp - stamps[index]!);
        gaps.sort((a, b) => a - b);
        busy.sort((a, b) => a - b);
        resolve({
          fps: (1000 * count) / (now - stamps[0]!),
          'worst frame ms': gaps.at(-1)!,
          'p95 frame ms': gaps[Math.floor(count * 0.95)]!,
          'draw ms': busy[Math.floor(busy.length / 2)]!,
        });
        return;
      }
      const start = performance.now();
      move(stamps.length);
      view.draw();
      busy.push(performance.now() - start);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
}

async function measure(): Promise<Record<string, unknown>> {
  const [npu] = graphs;
  const wide = widest(npu);
  view.select(Side.NPU, wide, { centre: true });
  timed(`open ${[...npu.children(wide)].length} children`, () => {
    view.toggle(Side.NPU, wide);
    view.draw();
  });
  timed('expand all', () => {
    view.expandAll();
    view.draw();
  });
  const search = timed('prepare search', () => new Search(npu));
  timed('search a text', () => search.find({ text: 'proj.linear.backward' }));
  timed('search a letter', () => search.find({ text: 'a' }));
  timed('search a pattern', () => search.find({ text: 'q_proj.*back', isPattern: true }));
  timed('search a pattern without literal', () =>
    search.find({ text: '\\d{3}$', isPattern: true }),
  );

  const report: Record<string, unknown> = { nodes: npu.count, ...timings };
  for (const rowHeight of [24, 16, 10, 4, 1]) {
    view.resetZoom();
    view.zoomBy(rowHeight / 24);
    view.panBy(0, -1e9);
    report[`pan at ${rowHeight} px`] = await frames(() => view.panBy(0, 37));
  }
  view.resetZoom();
  report['zoom out and in'] = await frames((frame) =>
    view.zoomBy(frame % 120 < 60 ? 0.9 : 1 / 0.9),
  );
  return report;
}

function widest(graph: Graph): number {
  let found = 0;
  let most = 0;
  for (let node = 0; node < graph.count; node++) {
    const children = graph.hasChildren(node) ? [...graph.children(node)].length : 0;
    if (children > most) [found, most] = [node, children];
  }
  return found;
}

Object.assign(window, { measure });
