import { decodeOpen, encodeOpen } from './code';
import type { Hierarchy, NodeRef } from './hierarchy';
import { SIDES } from './sides';

/** What a link to a view has to hold. */
export interface HierarchyState {
  /** Unfolded nodes per side, see code.ts. */
  readonly open: readonly [string, string];
  readonly selected: NodeRef | null;
  readonly zoom: number;
  /** The row at the upper edge. */
  readonly top: number;
  readonly left: number;
}

export function openOf({ graphs, expansion }: Hierarchy): [string, string] {
  const [npu, bench] = graphs;
  return [encodeOpen(npu, expansion.open[0]), bench ? encodeOpen(bench, expansion.open[1]) : ''];
}

/** Unfolds what a link says; a text that does not belong to this graph changes nothing. */
export function restoreOpen({ graphs, expansion }: Hierarchy, texts: readonly string[]): void {
  for (const side of SIDES) {
    const graph = graphs[side];
    const open = graph && decodeOpen(graph, texts[side] ?? '');
    if (open) expansion.open[side].set(open);
  }
}

/** The node if there is such a one in these graphs. */
export function known({ graphs }: Hierarchy, node: NodeRef | null): NodeRef | null {
  const graph = node && graphs[node.side];
  return graph && node.index >= 0 && node.index < graph.count ? node : null;
}
