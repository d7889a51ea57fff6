import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt, UNITS_PER_ROW } from '../layout/rows';
import { openAround, openOf, type HierarchyState } from '../layout/state';
import { topOf } from './anchor';
import { ROW_HEIGHT, unitAt, type View } from './viewport';

/** A link stays below what chat programs and mail cut off. */
const LONGEST = 3000;

/** What a link to a view has to hold; `height` is that of the pane. */
export function stateOf(
  hierarchy: Hierarchy,
  view: View,
  height: number,
  selected: NodeRef | null,
): HierarchyState {
  const near = hierarchy.nodeNear(view.top);
  const anchor = hierarchy.node(near);
  const above = topOf(hierarchy, anchor) ?? 0;
  const open = openOf(hierarchy);
  return {
    ...{ open, selected, foldLayers: hierarchy.foldsLayers },
    ...{ zoom: view.rowHeight / ROW_HEIGHT, left: view.left },
    ...{ anchor, top: (view.top - above) / UNITS_PER_ROW },
    ...(isLong(open) && { openInView: inView(hierarchy, view, height, selected) }),
  };
}

function isLong(open: readonly string[]): boolean {
  return open.join('').length > LONGEST;
}

/** What is unfolded in view, or just around the upper edge and the selection if that is too much. */
function inView(
  hierarchy: Hierarchy,
  view: View,
  height: number,
  selected: NodeRef | null,
): readonly [string, string] {
  const { rows } = hierarchy;
  const first = rowAt(rows, view.top);
  const last = rowAt(rows, unitAt(view, height));
  const chosen = selected ? hierarchy.rowOf(selected) : -1;
  const seen = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  const open = openAround(hierarchy, [...seen, chosen]);
  return isLong(open) ? openAround(hierarchy, [first, chosen]) : open;
}

/** Where `state` is scrolled to. */
export function viewOf(
  hierarchy: Hierarchy,
  { anchor, zoom, top, left }: Omit<HierarchyState, 'anchor'> & { anchor: NodeRef | null },
): View {
  const above = (anchor && topOf(hierarchy, anchor)) ?? 0;
  return { rowHeight: zoom * ROW_HEIGHT, top: above + top * UNITS_PER_ROW, left };
}
