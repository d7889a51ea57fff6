import type { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from './hierarchy';

/**
 * The node so many rows away on the same side, or in the one tree; gaps are skipped, and at either end it stays there.
 * Without a start, counting begins above the first row.
 */
export function stepFrom(
  hierarchy: Hierarchy,
  side: Side,
  from: NodeRef | null,
  rows: number,
): NodeRef {
  const shown = from && hierarchy.shown(from);
  const start = shown ? hierarchy.rowOf(shown) : -1;
  const aim = Math.max(0, Math.min(hierarchy.rows.count - 1, start + rows));
  if (hierarchy.isUnified) return hierarchy.nodeAt(side, aim) ?? { side, index: 0 };
  const nodes = hierarchy.rows.node[side];
  const forward = rows < 0 ? -1 : 1;
  const row = nodeRow(nodes, aim, forward) ?? nodeRow(nodes, aim, forward === 1 ? -1 : 1) ?? 0;
  return { side, index: Math.max(0, nodes[row]!) };
}

/** The closest row at or after `row` in a direction that holds a node. */
function nodeRow(nodes: Int32Array, row: number, direction: 1 | -1): number | null {
  for (let at = row; at >= 0 && at < nodes.length; at += direction) {
    if (nodes[at]! >= 0) return at;
  }
  return null;
}

export function parentOf(hierarchy: Hierarchy, { side, index }: NodeRef): NodeRef | null {
  const parent = hierarchy.trees[side]!.parent(index);
  return parent < 0 ? null : { side, index: parent };
}
