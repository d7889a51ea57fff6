import type { Graph } from '../data/graph';
import { decodeBits, decodeOpen, encodeBits, encodeOpen } from './code';
import type { Hierarchy, NodeRef } from './hierarchy';
import { SIDES } from './sides';

/** What a link to a view has to hold. */
export interface HierarchyState {
  /** What is unfolded per side: nodes and, after a dot, series of layers; see code.ts. */
  readonly open: readonly [string, string];
  readonly selected: NodeRef | null;
  readonly zoom: number;
  /** The row at the upper edge. */
  readonly top: number;
  readonly left: number;
  /** Whether layers are folded into one row; as the model suggests when it is left out. */
  readonly foldLayers?: boolean;
}

export function openOf({ graphs, expansion }: Hierarchy): [string, string] {
  const textOf = (graph: Graph, open: Uint8Array): string => {
    const series = encodeBits(open.subarray(graph.count));
    return encodeOpen(graph, open) + (series === '' ? '' : `.${series}`);
  };
  const [npu, bench] = graphs;
  return [textOf(npu, expansion.open[0]), bench ? textOf(bench, expansion.open[1]) : ''];
}

/** Unfolds what a link says; a text that does not belong to this graph changes nothing. */
export function restoreOpen({ graphs, expansion }: Hierarchy, texts: readonly string[]): void {
  for (const side of SIDES) {
    const graph = graphs[side];
    if (graph === null) continue;
    const [nodes = '', series = ''] = (texts[side] ?? '').split('.');
    const open = decodeOpen(graph, nodes);
    if (!open) continue;
    const all = expansion.open[side];
    all.set(open);
    all.set(decodeBits(series, all.length - graph.count) ?? [], graph.count);
  }
}

/** The node if there is such a one in these graphs. */
export function known({ graphs }: Hierarchy, node: NodeRef | null): NodeRef | null {
  const graph = node && graphs[node.side];
  return graph && node.index >= 0 && node.index < graph.count ? node : null;
}
