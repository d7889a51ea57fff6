import type { Graph } from '../data/graph';
import { decodeBits, decodeOpen, encodeBits, encodeOpen } from './code';
import type { Hierarchy, NodeRef } from './hierarchy';
import { SIDES, type Graphs, type PerSide } from './sides';

/** Where a side is scrolled to. */
export interface Place {
  readonly zoom: number;
  /** The row at the upper edge, counted from that of `anchor` if there is one. */
  readonly top: number;
  /** A node near the upper edge: it keeps its place whatever is unfolded above it. */
  readonly anchor?: NodeRef;
  readonly left: number;
}

/** What a link to a view has to hold; its own place is that of both sides in step. */
export interface HierarchyState extends Place {
  /** What is unfolded per side: nodes and, after a dot, series of layers; see code.ts. */
  readonly open: readonly [string, string];
  /** A part of `open` that is short, if that is very long. */
  readonly openInView?: readonly [string, string];
  readonly selected: NodeRef | null;
  /** Where the reference is scrolled to, when the sides do not move together. */
  readonly other?: Place;
  /** Whether layers are folded into one row; as the model suggests when it is left out. */
  readonly foldLayers?: boolean;
}

export function openOf({ graphs, expansion }: Hierarchy): [string, string] {
  return textsOf(graphs, expansion.open);
}

/** The same without what is unfolded elsewhere than in and above these rows. */
export function openAround(hierarchy: Hierarchy, rows: Iterable<number>): [string, string] {
  const { graphs, trees, expansion } = hierarchy;
  const kept = expansion.open.map((open) => new Uint8Array(open.length));
  for (const row of rows) {
    for (const side of SIDES) {
      let at = hierarchy.rows.node[side][row] ?? -1;
      while (at >= 0 && kept[side]![at] === 0) {
        if (expansion.isOpen(side, at)) kept[side]![at] = 1;
        at = trees[side]!.parent(at);
      }
    }
  }
  return textsOf(graphs, [kept[0]!, kept[1]!]);
}

function textsOf(graphs: Graphs, open: PerSide<Uint8Array>): [string, string] {
  const textOf = (graph: Graph, open: Uint8Array): string => {
    const series = encodeBits(open.subarray(graph.count));
    return encodeOpen(graph, open) + (series === '' ? '' : `.${series}`);
  };
  const [npu, bench] = graphs;
  return [textOf(npu, open[0]), bench ? textOf(bench, open[1]) : ''];
}

/**
 * Unfolds what a link says; a text that does not belong to this graph changes nothing. Whether all
 * of them belong.
 */
export function restoreOpen({ graphs, expansion }: Hierarchy, texts: readonly string[]): boolean {
  let areKnown = true;
  for (const side of SIDES) {
    const graph = graphs[side];
    if (graph === null) continue;
    const [nodes = '', series = ''] = (texts[side] ?? '').split('.');
    const open = decodeOpen(graph, nodes);
    areKnown &&= open !== null;
    if (!open) continue;
    const all = expansion.open[side];
    all.set(open);
    all.set(decodeBits(series, all.length - graph.count) ?? [], graph.count);
  }
  return areKnown;
}

/** The node if there is such a one in these graphs. */
export function known({ graphs }: Hierarchy, node: NodeRef | null): NodeRef | null {
  const graph = node && graphs[node.side];
  return graph && node.index >= 0 && node.index < graph.count ? node : null;
}
