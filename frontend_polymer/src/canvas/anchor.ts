import type { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { UNITS_PER_ROW } from '../layout/rows';
import { unitAt, yOf, type Spot, type View } from './viewport';

/** Where the row of a node begins, or of the folded module that hides it, and how deep it lies. */
export function spotOf(hierarchy: Hierarchy, node: NodeRef): Spot | null {
  const shown = hierarchy.shown(node);
  if (!shown) return null;
  const row = hierarchy.rowOf(shown);
  return { unit: hierarchy.rows.top[row]!, depth: hierarchy.rows.depth[row]! };
}

export function topOf(hierarchy: Hierarchy, node: NodeRef): number | null {
  return spotOf(hierarchy, node)?.unit ?? null;
}

/**
 * Changes what is unfolded and lays out anew. The answer is the upper edge of a view in which
 * `anchor` if it is in view, or else the uppermost node, stays where it is.
 */
export function changeInPlace(
  hierarchy: Hierarchy,
  side: Side,
  view: View,
  height: number,
  anchor: NodeRef | null,
  change: (hierarchy: Hierarchy) => void,
): number {
  let held = anchor ?? { side, index: 0 };
  let y = yOf(view, topOf(hierarchy, held) ?? -Infinity);
  if (y < 0 || y > height) {
    held = hierarchy.nodeNear(unitAt(view, 0));
    y = yOf(view, topOf(hierarchy, held)!);
  }
  const node = hierarchy.node(held);
  change(hierarchy);
  hierarchy.relayout();
  // A series is gone when layers are not folded any more.
  if (held.index >= hierarchy.trees[held.side]!.size) held = node;
  return (topOf(hierarchy, held) ?? 0) - (y / view.rowHeight) * UNITS_PER_ROW;
}
