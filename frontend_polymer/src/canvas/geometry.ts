import { bottomOf, UNITS_PER_ROW, type Rows } from '../layout/rows';
import {
  clamp,
  pixelsPerUnit,
  READING_ROW,
  ROW_HEIGHT,
  yOf,
  type Extent,
  type View,
} from './viewport';

/** Sizes that follow from the zoom, in CSS pixels. */
export interface Geometry {
  readonly rowHeight: number;
  /** Free room between two rows. */
  readonly gap: number;
  /** How much further left and right edges move in per level. */
  readonly indent: number;
  readonly inset: number;
  readonly radius: number;
  readonly padding: number;
  /** Font size; 0 when text would be unreadable. */
  readonly font: number;
  /** Whether class, call number, bars and errors are drawn beside the name. */
  readonly hasDetails: boolean;
  /** Whether rows are tall enough to be drawn one by one. */
  readonly hasBoxes: boolean;
}

const NAMED_ROW = 13;
const BOX_ROW = 3;

export function geometryOf(rowHeight: number): Geometry {
  const zoom = rowHeight / ROW_HEIGHT;
  const hasText = rowHeight >= NAMED_ROW;
  return {
    rowHeight,
    gap: rowHeight >= BOX_ROW ? Math.max(0.5, Math.min(5, 4 * zoom)) : 0,
    indent: Math.max(3, Math.min(20, 14 * zoom)),
    inset: Math.max(1, Math.min(6, 4 * zoom)),
    radius: rowHeight < 8 ? 0 : Math.min(5, 4 * zoom),
    padding: Math.max(4, 8 * Math.min(1, zoom)),
    font: hasText ? Math.round(Math.max(7.5, Math.min(17, 13 * zoom)) * 2) / 2 : 0,
    hasDetails: rowHeight >= READING_ROW,
    hasBoxes: rowHeight >= BOX_ROW,
  };
}

/** Room that a name gets at least before the pane scrolls sideways, at zoom 1. */
const LEAST_NAME = 240;

/** Rows are as wide as the pane unless deep nesting would leave too little for the names. */
export function contentWidth(rowHeight: number, paneWidth: number, deepest: number): number {
  const { indent, inset, padding } = geometryOf(rowHeight);
  const zoom = Math.min(1.5, rowHeight / ROW_HEIGHT);
  return Math.max(paneWidth, 2 * padding + deepest * (indent + inset) + LEAST_NAME * zoom);
}

/** Scrolls sideways as little as needed to show where a row of this depth begins, and its name. */
export function scrollBeside(view: View, extent: Extent, depth: number): View {
  const { indent, padding } = geometryOf(view.rowHeight);
  const start = padding + depth * indent;
  const name = Math.min(LEAST_NAME, extent.width - 3 * indent);
  const left = Math.min(Math.max(view.left, start + name - extent.width), start - 2 * indent);
  return clamp({ ...view, left }, extent);
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Places rows on a pane; edges lie on device pixels so that lines stay sharp. */
export class Placer {
  private readonly scale: number;

  constructor(
    readonly rows: Rows,
    readonly view: View,
    readonly geometry: Geometry,
    readonly contentWidth: number,
    readonly ratio: number,
  ) {
    this.scale = pixelsPerUnit(view);
  }

  left(depth: number): number {
    const { padding, indent } = this.geometry;
    return this.snap(padding + depth * indent - this.view.left);
  }

  right(depth: number): number {
    const { padding, inset } = this.geometry;
    return this.snap(this.contentWidth - padding - depth * inset - this.view.left);
  }

  /**
   * The row's own box: a leaf, or the header of a module. It begins inside the pane however far that
   * is scrolled sideways, so that what lies around deeply nested rows keeps its name.
   */
  row(row: number): Box {
    const top = this.rows.top[row]!;
    const box = this.between(row, top, top + UNITS_PER_ROW);
    const x = Math.max(box.x, this.snap(this.geometry.padding));
    return { ...box, x, width: Math.max(0, box.x + box.width - x) };
  }

  /** The box around a module and everything unfolded in it. */
  block(row: number): Box {
    return this.between(row, this.rows.top[row]!, bottomOf(this.rows, row));
  }

  snap(value: number): number {
    return Math.round(value * this.ratio) / this.ratio;
  }

  private between(row: number, from: number, to: number): Box {
    const depth = this.rows.depth[row]!;
    const x = this.left(depth);
    const y = this.snap(yOf(this.view, from));
    const bottom = this.snap((to - this.view.top) * this.scale - this.geometry.gap);
    return { x, y, width: Math.max(0, this.right(depth) - x), height: Math.max(0, bottom - y) };
  }
}
