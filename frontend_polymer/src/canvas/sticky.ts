import { bottomOf, rowAt, UNITS_PER_ROW, type Rows } from '../layout/rows';
import type { Box, Placer } from './geometry';
import { READING_ROW, unitAt, yOf } from './viewport';

const MOST = 4;
/** Of the pane's height, so that what is looked at keeps most of the room. */
const LARGEST_SHARE = 0.3;

export interface Sticky {
  readonly row: number;
  readonly box: Box;
}

/**
 * The modules around the uppermost rows, whose own rows are scrolled away: they stay at the upper
 * edge, so that one sees where one is. The root is left out; it says nothing.
 */
export function stickyRows(rows: Rows, placer: Placer, height: number): Sticky[] {
  const { geometry, view } = placer;
  const { rowHeight } = geometry;
  const most = Math.min(MOST, Math.floor((height * LARGEST_SHARE) / rowHeight));
  const stuck: Sticky[] = [];
  if (rowHeight < READING_ROW) return stuck;
  while (stuck.length < most) {
    const y = stuck.length * rowHeight;
    const row = moduleAround(rows, unitAt(view, y), stuck.length + 1);
    if (row === null || yOf(view, rows.top[row]!) >= y) break;
    // At the end of its block the next one pushes it out.
    const last = yOf(view, bottomOf(rows, row) - UNITS_PER_ROW);
    const box = placer.row(row);
    stuck.push({ row, box: { ...box, y: placer.snap(Math.min(y, last)) } });
  }
  return stuck;
}

/** The unfolded module of this depth around a height, null if there is none. */
function moduleAround(rows: Rows, unit: number, depth: number): number | null {
  let row = rowAt(rows, unit);
  while (row >= 0 && (rows.depth[row]! > depth || bottomOf(rows, row) <= unit))
    row = rows.parent[row]!;
  const isModule = row >= 0 && rows.depth[row] === depth && rows.end[row]! > row + 1;
  return isModule ? row : null;
}
