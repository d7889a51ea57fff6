import type { Graph } from '../data/graph';
import { SEVERITY } from '../data/rollup';
import { Kind, Side } from '../generated/graph_pb';
import { MOST_WRAPPERS, otherSide, type Graphs, type PerSide } from './sides';

/** Fewer layers are as quickly read as one row that stands for them. */
export const SHORTEST_SERIES = 4;

/** Layers of one list that were executed one after the other, nothing between them. */
export interface Series {
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** The layer to look at first. */
  readonly worst: number;
}

export interface FoundSeries {
  /** On each side; those of both sides come first and in the same order. */
  readonly of: PerSide<Series[]>;
  /** How many of them stand opposite each other, layer by layer. */
  readonly paired: number;
}

/**
 * Finds what can be folded into one row without losing the alignment: siblings whose paths differ in
 * their last number only, which rises or falls, and whose counterparts follow each other in the same
 * way, or which have none.
 */
export function findSeries(graphs: Graphs, beside: PerSide<Int32Array>): FoundSeries {
  const [npu, bench] = graphs;
  const lists = [new Lists(npu), bench && new Lists(bench)] as const;
  const opposite = (side: Side, node: number) => layerBeside(graphs, beside, side, node);
  const runs = (side: Side) =>
    runsOf(graphs[side]!, (before, next) => {
      const step = lists[side]!.step(before, next);
      if (step === 0) return 0;
      const [from, to] = [opposite(side, before), opposite(side, next)];
      if (from < 0 && to < 0) return step;
      if (from < 0 || to < 0 || graphs[otherSide(side)]!.end[from] !== to) return 0;
      return lists[otherSide(side)]!.step(from, to) === 0 ? 0 : step;
    });

  const found: PerSide<Series[]> = [[], []];
  const alone: Series[] = [];
  for (const run of runs(Side.NPU)) {
    const series = seriesOf(npu, run);
    const others = run.map((node) => opposite(Side.NPU, node));
    if (others[0]! < 0) {
      alone.push(series);
      continue;
    }
    found[0].push(series);
    const { worst } = series;
    found[1].push({ ...seriesOf(bench!, others), worst: opposite(Side.NPU, worst) });
  }
  const paired = found[0].length;
  found[0].push(...alone);
  if (bench) {
    for (const run of runs(Side.BENCH)) {
      if (opposite(Side.BENCH, run[0]!) < 0) found[1].push(seriesOf(bench, run));
    }
  }
  return { of: found, paired };
}

/**
 * What stands opposite a layer in the counterpart of the module around it, -1 for nothing. Modules
 * that one side alone has in between are seen through: a wrapper stands opposite what it wraps.
 */
function layerBeside(
  graphs: Graphs,
  beside: PerSide<Int32Array>,
  side: Side,
  layer: number,
): number {
  const graph = graphs[side]!;
  const others = graphs[otherSide(side)];
  if (others === null) return -1;
  let around = graph.parent[layer]!;
  for (let left = MOST_WRAPPERS; left > 0 && around > 0 && beside[side][around]! < 0; left--) {
    around = graph.parent[around]!;
  }
  const host = beside[side][around]!;
  if (host < 0) return -1;
  const own = unwrapped(graph, beside[side], layer);
  let opposite = own;
  let other = own;
  for (let left = MOST_WRAPPERS; left >= 0 && other > 0; left--) {
    const above = others.parent[other]!;
    if (above === host) return opposite;
    if (beside[otherSide(side)][above]! >= 0) return -1;
    // One that holds several layers is around them, one that holds this alone stands for it.
    const holdsAlone =
      unwrapped(others, beside[otherSide(side)], above) === beside[otherSide(side)][own];
    if (opposite === other && holdsAlone) opposite = above;
    other = above;
  }
  return -1;
}

/** The counterpart of a layer, or of the only thing it wraps that has one; -1 for none. */
function unwrapped(graph: Graph, beside: Int32Array, layer: number): number {
  let node = layer;
  for (let left = MOST_WRAPPERS; left >= 0; left--) {
    if (beside[node]! >= 0) return beside[node]!;
    const modules = [...graph.children(node)].filter(
      (child) => graph.kindOf(child) === Kind.MODULE,
    );
    if (modules.length !== 1) return -1;
    node = modules[0]!;
  }
  return -1;
}

/** Runs of siblings in which each step has the direction of the one before; a step of 0 ends one. */
function runsOf(graph: Graph, step: (before: number, next: number) => number): number[][] {
  const runs: number[][] = [];
  for (const parent of graph.folders) {
    const end = graph.end[parent]!;
    let first = parent + 1;
    let count = 1;
    let direction = 0;
    for (let child = first; child < end;) {
      const next = graph.end[child]!;
      const moved = next < end ? Math.sign(step(child, next)) : 0;
      if (moved !== 0 && (direction === 0 || moved === direction)) {
        direction = moved;
        count++;
      } else {
        if (count >= SHORTEST_SERIES) runs.push(siblings(graph, first, count));
        [first, count, direction] = [next, 1, 0];
      }
      child = next;
    }
  }
  return runs;
}

function siblings(graph: Graph, first: number, count: number): number[] {
  const nodes = [first];
  while (nodes.length < count) nodes.push(graph.end[nodes.at(-1)!]!);
  return nodes;
}

function seriesOf(graph: Graph, layers: number[]): Series {
  const severity = (node: number) => SEVERITY[graph.grade[node]!]!;
  const worst = layers.reduce((worst, layer) => {
    const more = severity(layer) - severity(worst) || graph.error[layer]! - graph.error[worst]!;
    return more > 0 ? layer : worst;
  });
  return { first: layers[0]!, last: layers.at(-1)!, count: layers.length, worst };
}

/** Which list each module is a layer of: everything in its stem but the last number of the path. */
class Lists {
  /** Per stem; -1 for what is in no list. */
  private readonly list: Int32Array;
  private readonly place: Int32Array;

  constructor(private readonly graph: Graph) {
    const known = new Map<string, number>();
    this.list = new Int32Array(graph.stems.length).fill(-1);
    this.place = new Int32Array(graph.stems.length);
    graph.stems.forEach((stem, at) => {
      const parts = /^(.*\.)?(\d{1,9})(\.[^.]+)$/.exec(stem);
      if (!parts) return;
      const key = `${parts[1] ?? ''}*${parts[3]}`;
      if (!known.has(key)) known.set(key, known.size);
      this.list[at] = known.get(key)!;
      this.place[at] = Number(parts[2]);
    });
  }

  /** How far apart two layers are in their list; 0 when they are not in the same one. */
  step(before: number, next: number): number {
    const { graph, list, place } = this;
    const [from, to] = [graph.stem[before]!, graph.stem[next]!];
    const isSame =
      list[from]! >= 0 &&
      list[from] === list[to] &&
      graph.kindOf(before) === Kind.MODULE &&
      graph.kindOf(next) === Kind.MODULE &&
      graph.direction[before] === graph.direction[next] &&
      graph.microStep[before] === graph.microStep[next];
    return isSame ? place[to]! - place[from]! : 0;
  }
}
