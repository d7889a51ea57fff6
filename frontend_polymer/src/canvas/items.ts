import type { Frame } from './frame';
import type { Box } from './geometry';
import { isCalm, toneOf } from './tone';

/** A node or series that is in view, and where. */
export interface Item {
  readonly id: number;
  /** The node itself, or the worst layer of a series. */
  readonly node: number;
  /** The nodes below: `from` to `to`, `to` excluded. */
  readonly from: number;
  readonly to: number;
  readonly row: number;
  readonly box: Box;
  /** Its colour class. */
  readonly tone: number;
  readonly isOpen: boolean;
  readonly hasChildren: boolean;
}

/** What the rows [first, last] hold. */
export function itemsOf(frame: Frame, first: number, last: number): Item[] {
  const items: Item[] = [];
  for (let row = first; row <= last; row++) {
    const id = frame.rows.node[frame.side][row]!;
    if (id >= 0) items.push(itemOf(frame, id, row, frame.placer.row(row)));
  }
  return items;
}

export function itemOf({ tree, tones, open }: Frame, id: number, row: number, box: Box): Item {
  const isOpen = open[id] === 1;
  return {
    ...{ id, row, box, isOpen, node: tree.node(id) },
    ...{ from: tree.start(id), to: tree.end(id) },
    tone: toneOf(tree, tones, id, isOpen),
    hasChildren: tree.hasChildren(id),
  };
}

/** Width of the part of a module's row that folds and unfolds it on a click. */
export function chevronRoom(font: number): number {
  return font * 1.55;
}

/** Whether the grades below a module are worth a bar: not if all is well or nothing is known. */
export function hasBar({ tones }: Frame, { from, to, hasChildren }: Item): boolean {
  if (!hasChildren) return false;
  return !isCalm(tones.worst(from, to));
}

/** The worst of a node itself, or of the layers of a folded series. */
export function overflowOf({ tree, graph }: Frame, { id, isOpen }: Item): number {
  if (!tree.isSeries(id)) return graph.overflow[id]!;
  if (isOpen) return 0;
  return Math.max(...Array.from(tree.children(id), (layer) => graph.overflow[layer]!));
}

/** Where the columns at the right end of the rows begin; the same at all depths. */
export interface Columns {
  readonly areShown: boolean;
  /** Right ends of the norms of both sides, in the one tree. */
  readonly debug: number;
  readonly reference: number;
  readonly flag: number;
  readonly bar: number;
  readonly error: number;
  readonly ticks: number;
  readonly end: number;
}

/** Sizes of the columns at font size 13. */
export const BAR_WIDTH = 72;
/** Free room at either side of an error. */
const ERROR_ROOM = 8;
const WIDEST_ERROR = '<0.001';
const TICKS_WIDTH = 20;
const FLAG_WIDTH = 18;
/** Of a norm in the one tree. */
const VALUE_WIDTH = 84;
/** Boxes narrower than this have no room for columns. */
const LEAST_WIDTH = 300;
/** Farther right, the eye would lose the row. */
const FARTHEST = 820;

export function columnsOf({ placer, deepest, measure, unified }: Frame): Columns {
  const { font, hasDetails } = placer.geometry;
  const scale = font / 13;
  // Measured from the deepest level, so that the columns are straight.
  const left = placer.left(deepest);
  const room = unified ? 2 * VALUE_WIDTH : 0;
  const end = Math.min(placer.right(deepest) - 6, left + (FARTHEST + 2 * room) * scale);
  const ticks = end - TICKS_WIDTH * scale;
  const error = ticks - measure.width(WIDEST_ERROR, font, 400) - 2 * ERROR_ROOM * scale;
  const bar = error - BAR_WIDTH * scale;
  const areShown = hasDetails && end - left >= (LEAST_WIDTH + room) * scale;
  const flag = bar - FLAG_WIDTH * scale;
  const reference = flag - ERROR_ROOM * scale;
  const debug = reference - (unified ? VALUE_WIDTH * scale : 0);
  return { areShown, ticks, error, bar, end, flag, debug, reference };
}
