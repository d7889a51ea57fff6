import type { Frame } from './draw';
import type { Box } from './geometry';

/** A node that is in view, and where. */
export interface Item {
  readonly node: number;
  readonly row: number;
  readonly box: Box;
  /** Its colour class. */
  readonly tone: number;
  readonly isOpen: boolean;
  readonly hasChildren: boolean;
}

/** The nodes of the rows [first, last]. */
export function itemsOf(frame: Frame, first: number, last: number): Item[] {
  const items: Item[] = [];
  for (let row = first; row <= last; row++) {
    const node = frame.rows.node[frame.side][row]!;
    if (node >= 0) items.push(itemOf(frame, node, row, frame.placer.row(row)));
  }
  return items;
}

export function itemOf(frame: Frame, node: number, row: number, box: Box): Item {
  return {
    ...{ node, row, box },
    tone: frame.tones.of(node),
    isOpen: frame.open[node] === 1,
    hasChildren: frame.graph.hasChildren(node),
  };
}

/** Where the columns at the right end of the rows begin; the same at all depths. */
export interface Columns {
  readonly areShown: boolean;
  readonly flag: number;
  readonly bar: number;
  readonly error: number;
  readonly ticks: number;
  readonly end: number;
}

/** Sizes of the columns at font size 13. */
export const BAR_WIDTH = 72;
const ERROR_WIDTH = 52;
const TICKS_WIDTH = 20;
const FLAG_WIDTH = 18;
/** Boxes narrower than this have no room for columns. */
const LEAST_WIDTH = 300;
/** Farther right, the eye would lose the row. */
const FARTHEST = 820;

export function columnsOf({ placer, graph }: Frame): Columns {
  const { font, hasDetails } = placer.geometry;
  const scale = font / 13;
  // Measured from the deepest level, so that the columns are straight.
  const left = placer.left(graph.deepest);
  const end = Math.min(placer.right(graph.deepest) - 6, left + FARTHEST * scale);
  const ticks = end - TICKS_WIDTH * scale;
  const error = ticks - ERROR_WIDTH * scale;
  const bar = error - (BAR_WIDTH + 6) * scale;
  const areShown = hasDetails && end - left >= LEAST_WIDTH * scale;
  return { areShown, ticks, error, bar, end, flag: bar - FLAG_WIDTH * scale };
}
