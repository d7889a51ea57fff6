import type { Frame } from './draw';
import { Grade } from '../generated/graph_pb';
import type { Tree } from '../layout/tree';
import type { Box } from './geometry';
import { TONE_SEVERITY, type Tones } from './tone';

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
    ...{ from: tree.start(id), to: tree.end[id]! },
    tone: toneOf(tree, tones, id, isOpen),
    hasChildren: tree.hasChildren(id),
  };
}

/** The colour class of a row itself: a series has that of its worst layer while that is hidden. */
export function toneOf(tree: Tree, tones: Tones, id: number, isOpen: boolean): number {
  if (!tree.isSeries(id)) return tones.of(id);
  let worst: number = Grade.UNGRADED;
  if (isOpen) return worst;
  for (const layer of tree.children(id)) {
    const tone = tones.of(layer);
    if (TONE_SEVERITY[tone]! > TONE_SEVERITY[worst]!) worst = tone;
  }
  return worst;
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
/** Free room at either side of an error. */
const ERROR_ROOM = 8;
const WIDEST_ERROR = '<0.001';
const TICKS_WIDTH = 20;
const FLAG_WIDTH = 18;
/** Boxes narrower than this have no room for columns. */
const LEAST_WIDTH = 300;
/** Farther right, the eye would lose the row. */
const FARTHEST = 820;

export function columnsOf({ placer, tree, measure }: Frame): Columns {
  const { font, hasDetails } = placer.geometry;
  const scale = font / 13;
  // Measured from the deepest level, so that the columns are straight.
  const left = placer.left(tree.deepest);
  const end = Math.min(placer.right(tree.deepest) - 6, left + FARTHEST * scale);
  const ticks = end - TICKS_WIDTH * scale;
  const error = ticks - measure.width(WIDEST_ERROR, font, 400) - 2 * ERROR_ROOM * scale;
  const bar = error - BAR_WIDTH * scale;
  const areShown = hasDetails && end - left >= LEAST_WIDTH * scale;
  return { areShown, ticks, error, bar, end, flag: bar - FLAG_WIDTH * scale };
}
