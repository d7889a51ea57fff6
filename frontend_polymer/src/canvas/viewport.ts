import { UNITS_PER_ROW } from '../layout/rows';

/** Height of a row at zoom 1, in CSS pixels. */
export const ROW_HEIGHT = 24;
/** Rows must be this tall for names and details to be read. */
export const READING_ROW = 16;
export const TALLEST_ROW = 40;
/** Free room above the first and below the last row. */
export const MARGIN = 8;
/** Rows kept above one that is scrolled to: modules may stick there. */
const ROWS_ABOVE = 5;

/** What part of the rows a pane shows. Vertical positions are in units of the layout. */
export interface View {
  /** Height of a row in CSS pixels. */
  rowHeight: number;
  /** The unit at the upper edge of the pane; may be fractional. */
  top: number;
  /** Scrolled to the right, in CSS pixels. */
  left: number;
}

/** Where a row lies. */
export interface Spot {
  /** Where it begins, in units. */
  readonly unit: number;
  /** How many modules are around it. */
  readonly depth: number;
}

/** The size of a pane and of what it shows. */
export interface Extent {
  /** Of the pane, in CSS pixels. */
  width: number;
  height: number;
  /** Of the rows, in units. */
  units: number;
  /** Of the rows at a row height, in CSS pixels. */
  contentWidth: (rowHeight: number) => number;
}

export function pixelsPerUnit(view: View): number {
  return view.rowHeight / UNITS_PER_ROW;
}

export function unitAt(view: View, y: number): number {
  return view.top + y / pixelsPerUnit(view);
}

export function yOf(view: View, unit: number): number {
  return (unit - view.top) * pixelsPerUnit(view);
}

/** The row height at which everything is visible, never above zoom 1. */
export function fittingRowHeight(extent: Extent): number {
  const rows = Math.max(1, extent.units / UNITS_PER_ROW);
  return Math.min(ROW_HEIGHT, Math.max(1, extent.height - 2 * MARGIN) / rows);
}

/** Keeps a view on the content: rows no taller than readable, no smaller than all at once. */
export function clamp(view: View, extent: Extent): View {
  const least = Math.min(ROW_HEIGHT / 4, fittingRowHeight(extent));
  const rowHeight = between(view.rowHeight, least, TALLEST_ROW);
  const scale = rowHeight / UNITS_PER_ROW;
  const first = -MARGIN / scale;
  const last = Math.max(first, extent.units - (extent.height - MARGIN) / scale);
  const widest = Math.max(0, extent.contentWidth(rowHeight) - extent.width);
  return { rowHeight, top: between(view.top, first, last), left: between(view.left, 0, widest) };
}

/** Zooms so that the point at (x, y) of the pane stays where it is. */
export function zoomAt(view: View, extent: Extent, factor: number, x: number, y: number): View {
  const unit = unitAt(view, y);
  const sized = clamp({ ...view, rowHeight: view.rowHeight * factor }, extent);
  const wide = extent.contentWidth(sized.rowHeight) / extent.contentWidth(view.rowHeight);
  return clamp(
    {
      rowHeight: sized.rowHeight,
      top: unit - y / pixelsPerUnit(sized),
      left: (view.left + x) * wide - x,
    },
    extent,
  );
}

export function panBy(view: View, extent: Extent, dx: number, dy: number): View {
  const top = view.top + dy / pixelsPerUnit(view);
  return clamp({ ...view, top, left: view.left + dx }, extent);
}

/** Shows everything. */
export function fit(extent: Extent): View {
  return clamp({ rowHeight: fittingRowHeight(extent), top: 0, left: 0 }, extent);
}

/** Puts a height in the middle of the pane. */
export function centreOn(view: View, extent: Extent, unit: number): View {
  return clamp({ ...view, top: unit - extent.height / 2 / pixelsPerUnit(view) }, extent);
}

/** Scrolls as little as needed to show the row that begins at `unit` with some rows around it. */
export function scrollInto(view: View, extent: Extent, unit: number): View {
  const page = extent.height / pixelsPerUnit(view);
  const above = Math.min(ROWS_ABOVE * UNITS_PER_ROW, page / 3);
  const below = Math.min(UNITS_PER_ROW, page / 4);
  const top = between(view.top, unit + UNITS_PER_ROW + below - page, unit - above);
  return clamp({ ...view, top }, extent);
}

/** Part of the way from one view to another, with a soft end; `progress` runs from 0 to 1. */
export function blend(from: View, to: View, progress: number): View {
  const part = 1 - (1 - progress) ** 3;
  const mix = (a: number, b: number) => a + (b - a) * part;
  return {
    rowHeight: mix(from.rowHeight, to.rowHeight),
    top: mix(from.top, to.top),
    left: mix(from.left, to.left),
  };
}

function between(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
