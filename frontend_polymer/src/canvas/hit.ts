import type { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { bottomOf, rowAt, UNITS_PER_ROW } from '../layout/rows';
import { chevronRoom } from './items';
import type { Placer } from './geometry';
import { stickyRows } from './sticky';
import { unitAt } from './viewport';

export interface Hit {
  readonly node: NodeRef;
  /** On the part of a module's row that folds and unfolds it. */
  readonly onChevron: boolean;
}

/** The innermost box at a point of a pane of this height, null beside all boxes. */
export function hitAt(
  hierarchy: Hierarchy,
  side: Side,
  placer: Placer,
  x: number,
  y: number,
  height: number,
): Hit | null {
  const { rows } = hierarchy;
  const stuck = stickyRows(rows, placer, height).find(
    ({ row, box }) =>
      y >= box.y &&
      y < box.y + box.height &&
      (isOpenAt(hierarchy, side, row) || (rows.through[row] === 1 && !hierarchy.nodeAt(side, row))),
  );
  if (stuck) {
    // A module that this side lacks covers what lies beneath, too.
    if (!hierarchy.nodeAt(side, stuck.row)) return null;
    return hitOf(hierarchy, side, placer, stuck.row, x, true);
  }
  const unit = unitAt(placer.view, y);
  if (unit < 0 || unit >= rows.height) return null;
  const at = rowAt(rows, unit);
  const isOnRow = unit < rows.top[at]! + UNITS_PER_ROW;
  const holds = (row: number) => {
    if (!hierarchy.nodeAt(side, row) || unit >= bottomOf(rows, row)) return false;
    // Below its own row a node has a box only while it is unfolded.
    if (!(row === at && isOnRow) && !isOpenAt(hierarchy, side, row)) return false;
    const depth = rows.depth[row]!;
    return x >= placer.left(depth) && x < placer.right(depth);
  };
  let row = at;
  while (row >= 0 && !holds(row)) row = rows.parent[row]!;
  return row < 0 ? null : hitOf(hierarchy, side, placer, row, x, row === at && isOnRow);
}

function hitOf(
  hierarchy: Hierarchy,
  side: Side,
  placer: Placer,
  row: number,
  x: number,
  isOnRow: boolean,
): Hit {
  const { rows, trees } = hierarchy;
  const node = hierarchy.nodeAt(side, row)!;
  const { font } = placer.geometry;
  const isLeft = x < placer.left(rows.depth[row]!) + chevronRoom(font) + 2;
  const hasChevron = font > 0 && trees[node.side]!.hasChildren(node.index);
  return { node, onChevron: hasChevron && isOnRow && isLeft };
}

/** Whether a side has the module of a row, and has it unfolded. */
export function isOpenAt(hierarchy: Hierarchy, side: Side, row: number): boolean {
  const node = hierarchy.nodeAt(side, row);
  return node !== null && hierarchy.expansion.isOpen(node.side, node.index);
}
