import type { Depths } from '../data/narrow';
import type { PerSide } from './sides';
import type { Tree } from './tree';

/** Heights are counted in quarters of a row, the room that closes a box. */
export const UNITS_PER_ROW = 4;

/**
 * What is unfolded, top to bottom. Both sides share the sequence: the same row is the same height,
 * and a side that lacks the node of a row has a gap there.
 */
export interface Rows {
  readonly count: number;
  /** The node or series of each side in a row, -1 for a gap; in execution order. */
  readonly node: PerSide<Int32Array>;
  /** The row of each node and series, -1 while it is folded away or filtered out. */
  readonly rowOf: PerSide<Int32Array>;
  readonly depth: Depths;
  /** The row of the module around this one, -1 for the root. */
  readonly parent: Int32Array;
  /** One past the last row of the block that this row heads; the next row for a leaf. */
  readonly end: Int32Array;
  /** Where the row begins, in units. */
  readonly top: Int32Array;
  /**
   * 1 where one side alone has a module, and its block holds nodes of both: those of the other side
   * belong to the next module around that it has.
   */
  readonly through: Uint8Array;
  /** Of everything, in units. */
  readonly height: number;
}

/**
 * Where the block of a row closes, in units: above the next row, and above the modules around that
 * close there as well, each of which takes a unit.
 */
export function bottomOf({ count, depth, end, top, height }: Rows, row: number): number {
  const next = end[row]!;
  const [below, level] = next < count ? [top[next]!, depth[next]!] : [height, 0];
  return below - (depth[row]! - level);
}

/** The row at this height; the row above where a box closes. Clamped to the first and last. */
export function rowAt(rows: Rows, unit: number): number {
  let low = 0;
  let high = rows.count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows.top[middle]! <= unit) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The node itself, or its closest ancestor that has a row; -1 when it is filtered out. */
export function shownNode(tree: Tree, rowOf: Int32Array, node: number): number {
  let shown = node;
  while (shown >= 0 && rowOf[shown]! < 0) shown = tree.parent(shown);
  return shown;
}
