import type { Grade, Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt } from '../layout/rows';
import type { Tree } from '../layout/tree';
import type { Placer } from './geometry';
import type { FoldedLayers } from './events';
import { isOpenAt } from './hit';
import { stickyRows } from './sticky';
import { unitAt } from './viewport';

/** One box as it stands on the screen. Positions are CSS pixels from the view's upper left corner. */
export interface SceneRow {
  readonly row: number;
  readonly side: Side;
  /** What `select`, `toggle` and the like take for this row: the node, or the number of a series. */
  readonly id: number;
  /** The node; for folded layers the one to look at first. */
  readonly index: number;
  /** How many layers are folded in this row; 0 for a node. */
  readonly layers: number;
  /** As the dump has it; `layers.0…79` in the name of folded layers. */
  readonly name: string;
  readonly label: string;
  /** Boxes around it. */
  readonly depth: number;
  readonly expandable: boolean;
  readonly expanded: boolean;
  readonly grade: Grade;
  /** Of the node and everything below it: ok … severe, ungraded when none is graded. */
  readonly worstGrade: Grade;
  readonly selected: boolean;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Where a pane stands in the view, and how tall it is. */
export interface Place {
  readonly side: Side;
  readonly x: number;
  readonly surface: { readonly height: number };
}

/**
 * The boxes of one side, or of the one tree, that are in view, top to bottom: first the modules that stick to the upper
 * edge, then the rows that these do not cover. If `most` are less, those around the selected one.
 */
export function sceneOf(
  hierarchy: Hierarchy,
  placer: Placer,
  { side, x, surface }: Place,
  selected: NodeRef | null,
  most = Infinity,
): SceneRow[] {
  if (hierarchy.trees[side] === null) return [];
  const { rows, expansion } = hierarchy;
  const stuck = stickyRows(rows, placer, surface.height).filter(({ row }) =>
    isOpenAt(hierarchy, side, row),
  );
  const covered = Math.max(0, ...stuck.map(({ box }) => box.y + box.height));
  const top = rowAt(rows, unitAt(placer.view, 0));
  const bottom = rowAt(rows, unitAt(placer.view, surface.height));
  const chosen = selected && hierarchy.spokesman(selected);
  const isHere = chosen && (hierarchy.isUnified || chosen.side === side);
  const middle = isHere ? hierarchy.rowOf(chosen) : top;
  const first = Math.max(top, Math.min(Math.floor(middle - most / 2), bottom - most + 1));
  const last = Math.min(bottom, first + most - 1);
  const free = Array.from({ length: last - first + 1 }, (_, place) => first + place)
    .filter((row) => hierarchy.nodeAt(side, row) !== null)
    .map((row) => ({ row, box: placer.row(row) }))
    .filter(({ box }) => box.y + box.height / 2 >= covered);
  return [...stuck, ...free].map(({ row, box }) => {
    const { side: own, index: id } = hierarchy.nodeAt(side, row)!;
    const tree = hierarchy.trees[own]!;
    const { graph } = tree;
    const index = tree.node(id);
    const from = tree.isSeries(id) ? tree.start(id) : id;
    return {
      ...{ row, side: own, id, index, layers: tree.layers(id) },
      name: tree.name(id),
      label: labelText(tree, id),
      depth: rows.depth[row]!,
      expandable: tree.hasChildren(id),
      expanded: expansion.isOpen(own, id),
      grade: graph.gradeOf(index),
      worstGrade: graph.rollup.worstGrade(from, tree.end(id)),
      selected: chosen?.side === own && chosen.index === id,
      ...{ x: x + box.x, y: box.y, width: box.width, height: box.height },
    };
  });
}

/** What an event says about what the user sees in a row: the node and, if so, its layers. */
export function seenAt(
  hierarchy: Hierarchy,
  seen: NodeRef,
): { node: NodeRef; layers: FoldedLayers | null } {
  const tree = hierarchy.trees[seen.side]!;
  const { index: id } = seen;
  if (!tree.isSeries(id)) return { node: seen, layers: null };
  const layers = { id, count: tree.layers(id), name: tree.name(id), label: labelText(tree, id) };
  return { node: hierarchy.node(seen), layers };
}

function labelText(tree: Tree, id: number): string {
  const { title, type } = tree.label(id);
  const count = tree.layers(id) === 0 ? '' : ` ×${tree.layers(id)}`;
  return (type === '' ? title : `${title} · ${type}`) + count;
}
