import type { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt, UNITS_PER_ROW } from '../layout/rows';
import { chevronRoom } from './content';
import type { Placer } from './geometry';
import { unitAt } from './viewport';

export interface Hit {
  readonly node: NodeRef;
  /** On the part of a module's row that folds and unfolds it. */
  readonly onChevron: boolean;
}

/** The innermost box at a point of a pane, null beside all boxes. */
export function hitAt(
  hierarchy: Hierarchy,
  side: Side,
  placer: Placer,
  x: number,
  y: number,
): Hit | null {
  const { rows, expansion } = hierarchy;
  const unit = unitAt(placer.view, y);
  if (unit < 0 || unit >= rows.height) return null;
  const nodes = rows.node[side];
  const at = rowAt(rows, unit);
  const isOnRow = unit < rows.top[at]! + UNITS_PER_ROW;
  const holds = (row: number) => {
    const index = nodes[row]!;
    if (index < 0 || unit >= rows.bottom[row]!) return false;
    // Below its own row a node has a box only while it is unfolded.
    if (!(row === at && isOnRow) && !expansion.isOpen(side, index)) return false;
    const depth = rows.depth[row]!;
    return x >= placer.left(depth) && x < placer.right(depth);
  };
  let row = at;
  while (row >= 0 && !holds(row)) row = rows.parent[row]!;
  if (row < 0) return null;
  const index = nodes[row]!;
  const { font } = placer.geometry;
  const isLeft = x < placer.left(rows.depth[row]!) + chevronRoom(font) + 2;
  const hasChevron = font > 0 && hierarchy.graphs[side]!.hasChildren(index);
  return { node: { side, index }, onChevron: hasChevron && isOnRow && row === at && isLeft };
}
