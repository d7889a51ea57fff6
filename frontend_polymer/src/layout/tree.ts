import type { Graph } from '../data/graph';
import type { Label } from '../data/label';
import type { Series } from './series';

/**
 * What can have a row: the nodes of a graph under their own numbers and, after them, series of
 * layers that are folded into one. A series stands between its layers and their module.
 */
export class Tree {
  readonly size: number;
  /** -1 for the root. */
  readonly parent: Int32Array;
  /** One past the last node below. */
  readonly end: Int32Array;
  /** The most rows around a row. */
  readonly deepest: number;

  constructor(
    readonly graph: Graph,
    readonly series: readonly Series[] = [],
  ) {
    const { count } = graph;
    this.size = count + series.length;
    if (series.length === 0) {
      ({ parent: this.parent, end: this.end, deepest: this.deepest } = graph);
      return;
    }
    this.parent = extended(graph.parent, this.size);
    this.end = extended(graph.end, this.size);
    series.forEach(({ first, last }, at) => {
      this.parent[count + at] = graph.parent[first]!;
      this.end[count + at] = graph.end[last]!;
      for (let layer = first; layer <= last; layer = graph.end[layer]!) {
        this.parent[layer] = count + at;
      }
    });
    this.deepest = this.depths().reduce((deepest, depth) => Math.max(deepest, depth));
  }

  isSeries(id: number): boolean {
    return id >= this.graph.count;
  }

  /** The first node below, in a leaf one past it. */
  start(id: number): number {
    return this.isSeries(id) ? this.seriesOf(id).first : id + 1;
  }

  hasChildren(id: number): boolean {
    return this.end[id]! > this.start(id);
  }

  /** What holds a node among the children of `parent`: the node itself, or a series. */
  childAt(parent: number, node: number): number {
    const above = this.parent[node]!;
    return above === parent ? node : above;
  }

  /** In execution order. */
  *children(id: number): Generator<number> {
    const end = this.end[id]!;
    for (let node = this.start(id); node < end;) {
      const child = this.childAt(id, node);
      yield child;
      node = this.end[child]!;
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

  private depths(): Uint16Array {
    const depth = new Uint16Array(this.size);
    for (let node = 1; node < this.graph.count; node++) {
      const above = this.parent[node]!;
      if (this.isSeries(above)) depth[above] = depth[this.parent[above]!]! + 1;
      depth[node] = depth[above]! + 1;
    }
    return depth;
  }
}

/** The last number of a title or, before the class, of a stem. */
function numberOf(text: string): string {
  return /(\d+)(?:\.[^.\d][^.]*)?$/.exec(text)?.[1] ?? '';
}

function extended(values: Int32Array, size: number): Int32Array {
  const longer = new Int32Array(size);
  longer.set(values);
  return longer;
}
