import type { Grade, Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt } from '../layout/rows';
import type { Placer } from './geometry';
import type { Pane } from './panes';
import { isOpenAt } from './hit';
import { stickyRows } from './sticky';
import { unitAt } from './viewport';

/** One box as it stands on the screen. Positions are CSS pixels from the view's upper left corner. */
export interface SceneRow {
  readonly row: number;
  readonly side: Side;
  readonly index: number;
  readonly name: string;
  readonly label: string;
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

/**
 * The boxes of one side that are in view, top to bottom: first the modules that stick to the upper
 * edge, then the rows that these do not cover.
 */
export function sceneOf(
  hierarchy: Hierarchy,
  placer: Placer,
  { side, x, surface }: Pane,
  selected: NodeRef | null,
): SceneRow[] {
  const graph = hierarchy.graphs[side];
  if (graph === null) return [];
  const { rows, expansion } = hierarchy;
  const stuck = stickyRows(rows, placer, surface.height).filter(({ row }) =>
    isOpenAt(hierarchy, side, row),
  );
  const covered = Math.max(0, ...stuck.map(({ box }) => box.y + box.height));
  const first = rowAt(rows, unitAt(placer.view, 0));
  const last = rowAt(rows, unitAt(placer.view, surface.height));
  const free = Array.from({ length: last - first + 1 }, (_, place) => first + place)
    .filter((row) => rows.node[side][row]! >= 0)
    .map((row) => ({ row, box: placer.row(row) }))
    .filter(({ box }) => box.y + box.height / 2 >= covered);
  return [...stuck, ...free].map(({ row, box }) => {
    const index = rows.node[side][row]!;
    return {
      ...{ row, side, index },
      name: graph.name(index),
      label: labelText(graph.label(index)),
      depth: graph.depth[index]!,
      expandable: graph.hasChildren(index),
      expanded: expansion.isOpen(side, index),
      grade: graph.gradeOf(index),
      worstGrade: graph.worstGrade(index),
      selected: selected?.side === side && selected.index === index,
      ...{ x: x + box.x, y: box.y, width: box.width, height: box.height },
    };
  });
}

function labelText({ title, type }: { title: string; type: string }): string {
  return type === '' ? title : `${title} · ${type}`;
}
