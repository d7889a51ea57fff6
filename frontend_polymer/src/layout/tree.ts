import type { Graph } from '../data/graph';
import type { Label } from '../data/label';
import type { Series } from './series';

/**
 * What can have a row: the nodes of a graph under their own numbers and, after them, series of
 * layers that are folded into one. A series stands between its layers and their module.
 */
export class Tree {
  readonly size: number;
  /** The most rows around a row. */
  readonly deepest: number;
  /** The series of each layer, and 1 for each layer: asking is cheaper there. */
  private readonly seriesAbove = new Map<number, number>();
  private readonly isLayer: Uint8Array | null;

  constructor(
    readonly graph: Graph,
    readonly series: readonly Series[] = [],
  ) {
    const { count } = graph;
    this.size = count + series.length;
    this.isLayer = series.length === 0 ? null : new Uint8Array(count);
    series.forEach(({ first, last }, at) => {
      for (let layer = first; layer <= last; layer = graph.end[layer]!) {
        this.seriesAbove.set(layer, count + at);
        this.isLayer![layer] = 1;
      }
    });
    this.deepest = this.isLayer ? this.deepestOf(this.isLayer) : graph.deepest;
  }

  /** -1 for the root. */
  parent(id: number): number {
    if (this.isSeries(id)) return this.graph.parent[this.seriesOf(id).first]!;
    return this.isLayer?.[id] === 1 ? this.seriesAbove.get(id)! : this.graph.parent[id]!;
  }

  /** One past the last node below. */
  end(id: number): number {
    return this.graph.end[this.isSeries(id) ? this.seriesOf(id).last : id]!;
  }

  isSeries(id: number): boolean {
    return id >= this.graph.count;
  }

  /** The first node below, in a leaf one past it. */
  start(id: number): number {
    return this.isSeries(id) ? this.seriesOf(id).first : id + 1;
  }

  hasChildren(id: number): boolean {
    return this.end(id) > this.start(id);
  }

  /** All that has children. */
  folders(): Int32Array {
    const { folders, count } = this.graph;
    if (this.series.length === 0) return folders;
    const all = new Int32Array(folders.length + this.series.length);
    all.set(folders);
    this.series.forEach((_, at) => (all[folders.length + at] = count + at));
    return all;
  }

  /** What holds a node among the children of `parent`: the node itself, or a series. */
  childAt(parent: number, node: number): number {
    const above = this.parent(node);
    return above === parent ? node : above;
  }

  /** In execution order. */
  *children(id: number): Generator<number> {
    const end = this.end(id);
    for (let node = this.start(id); node < end;) {
      const child = this.childAt(id, node);
      yield child;
      node = this.end(child);
    }
  }

  /** The node that speaks for a row: itself, or the worst layer of a series. */
  node(id: number): number {
    return this.isSeries(id) ? this.seriesOf(id).worst : id;
  }

  /** How many layers a series has; 0 for a node. */
  layers(id: number): number {
    return this.isSeries(id) ? this.seriesOf(id).count : 0;
  }

  microStep(id: number): number {
    return this.graph.microStep[this.node(id)]!;
  }

  /** `layers.0 … 79` for a series. */
  label(id: number): Label {
    if (!this.isSeries(id)) return this.graph.label(id);
    const { first, last } = this.seriesOf(id);
    const { title, type } = this.graph.label(first);
    return { title: `${title} … ${numberOf(this.graph.label(last).title)}`, type };
  }

  /** The full name; of a series, with its first and last number in place of one. */
  name(id: number): string {
    const { graph } = this;
    if (!this.isSeries(id)) return graph.name(id);
    const { first, last } = this.seriesOf(id);
    const stem = graph.stems[graph.stem[first]!]!;
    const end = numberOf(graph.stems[graph.stem[last]!]!);
    return stem.replace(/\d+(?=\.[^.]+$)/, (begin) => `${begin}…${end}`) + graph.suffix(first);
  }

  private seriesOf(id: number): Series {
    return this.series[id - this.graph.count]!;
  }

  /** Each layer lies, with all that it holds, a row deeper than in the graph. */
  private deepestOf(isLayer: Uint8Array): number {
    const { count, parent, depth } = this.graph;
    const lower = new Uint16Array(count);
    let deepest = 0;
    for (let node = 1; node < count; node++) {
      lower[node] = lower[parent[node]!]! + isLayer[node]!;
      deepest = Math.max(deepest, depth[node]! + lower[node]!);
    }
    return deepest;
  }
}

/** The last number of a title or, before the class, of a stem. */
function numberOf(text: string): string {
  return /(\d+)(?:\.[^.\d][^.]*)?$/.exec(text)?.[1] ?? '';
}
