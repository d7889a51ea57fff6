import { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { rowAt, UNITS_PER_ROW } from '../layout/rows';
import { known, openAround, openOf, type HierarchyState, type Place } from '../layout/state';
import { topOf } from './anchor';
import type { Camera } from './camera';
import { ROW_HEIGHT, unitAt, type View } from './viewport';

/** A link stays below what chat programs and mail cut off. */
const LONGEST = 3000;

/** What a link to a view has to hold: of both sides, where they are scrolled apart. */
export function stateOf(
  hierarchy: Hierarchy,
  camera: Camera,
  active: Side,
  isApart: boolean,
  selected: NodeRef | null,
): HierarchyState {
  const sides = isApart ? ([Side.NPU, Side.BENCH] as const) : ([active] as const);
  const [place, other] = sides.map((side) => placeOf(hierarchy, camera.view(side)));
  const open = openOf(hierarchy);
  return {
    ...{ open, selected, foldLayers: hierarchy.foldsLayers },
    ...place!,
    ...(other && { other }),
    ...(isLong(open) && { openInView: inView(hierarchy, camera, sides, selected) }),
  };
}

/** Scrolls to where `state` is; a place of its own for the reference only holds apart. */
export function scrollTo(
  hierarchy: Hierarchy,
  camera: Camera,
  active: Side,
  state: HierarchyState,
): void {
  const { other } = state;
  camera.set(other ? Side.NPU : active, viewOf(hierarchy, state));
  if (other && !camera.isSynced) camera.set(Side.BENCH, viewOf(hierarchy, other));
}

function isLong(open: readonly string[]): boolean {
  return open.join('').length > LONGEST;
}

/** What is unfolded in view, or just around the upper edge and the selection if that is too much. */
function inView(
  hierarchy: Hierarchy,
  camera: Camera,
  sides: readonly Side[],
  selected: NodeRef | null,
): readonly [string, string] {
  const { rows } = hierarchy;
  const chosen = selected ? hierarchy.rowOf(selected) : -1;
  const first = sides.map((side) => rowAt(rows, camera.view(side).top));
  const seen = sides.flatMap((side, at) => {
    const last = rowAt(rows, unitAt(camera.view(side), camera.extent(side).height));
    return Array.from({ length: last - first[at]! + 1 }, (_, below) => first[at]! + below);
  });
  const open = openAround(hierarchy, [...seen, chosen]);
  return isLong(open) ? openAround(hierarchy, [...first, chosen]) : open;
}

function placeOf(hierarchy: Hierarchy, view: View): Place {
  const anchor = hierarchy.node(hierarchy.nodeNear(view.top));
  const above = topOf(hierarchy, anchor) ?? 0;
  return {
    ...{ zoom: view.rowHeight / ROW_HEIGHT, left: view.left },
    ...{ anchor, top: (view.top - above) / UNITS_PER_ROW },
  };
}

function viewOf(hierarchy: Hierarchy, { anchor, zoom, top, left }: Place): View {
  const node = known(hierarchy, anchor ?? null);
  const above = (node && topOf(hierarchy, node)) ?? 0;
  return { rowHeight: zoom * ROW_HEIGHT, top: above + top * UNITS_PER_ROW, left };
}
