import type { Grade, Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt } from '../layout/rows';
import type { Placer } from './geometry';
import type { Pane } from './panes';
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

/** The boxes of one side that are in view, top to bottom. */
export function sceneOf(
  hierarchy: Hierarchy,
  placer: Placer,
  { side, x, surface }: Pane,
  selected: NodeRef | null,
): SceneRow[] {
  const graph = hierarchy.graphs[side];
  if (graph === null) return [];
  const { rows, expansion } = hierarchy;
  const first = rowAt(rows, unitAt(placer.view, 0));
  const last = rowAt(rows, unitAt(placer.view, surface.height));
  const scene: SceneRow[] = [];
  for (let row = first; row <= last; row++) {
    const index = rows.node[side][row]!;
    if (index < 0) continue;
    const box = placer.row(row);
    scene.push({
      row,
      side,
      index,
      name: graph.name(index),
      label: labelText(graph.label(index)),
      depth: graph.depth[index]!,
      expandable: graph.hasChildren(index),
      expanded: expansion.isOpen(side, index),
      grade: graph.gradeOf(index),
      worstGrade: graph.worstGrade(index),
      selected: selected?.side === side && selected.index === index,
      ...{ x: x + box.x, y: box.y, width: box.width, height: box.height },
    });
  }
  return scene;
}

function labelText({ title, type }: { title: string; type: string }): string {
  return type === '' ? title : `${title} · ${type}`;
}
