/**
 * A page with nothing but the hierarchy and a made-up model, to look at and to measure.
 * Parameters: layers, steps, wide, theme, single. `measure.py` drives it.
 */
import { Graph } from '../src/data/graph';
import { HierarchyView } from '../src/canvas/view';
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
