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
  /** Whether there is room for what nodes put out: shape and type begin, the norm ends here. */
  readonly areWide: boolean;
  readonly shape: number;
  readonly dtype: number;
  readonly norm: number;
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
/** Of shape, type and norm on either side. */
export const SHAPE_WIDTH = 150;
const DTYPE_WIDTH = 78;
const NORM_WIDTH = 108;
/** Of name, bar and difference beside them. */
const NAME_WIDTH = 420;
const WIDE = SHAPE_WIDTH + DTYPE_WIDTH + NORM_WIDTH;
/** Boxes narrower than this have no room for columns. */
const LEAST_WIDTH = 300;
/** Farther right, the eye would lose the row. */
const FARTHEST = 820;

export function columnsOf({ placer, deepest, measure, unified, facts, side }: Frame): Columns {
  const { font, hasDetails } = placer.geometry;
  const scale = font / 13;
  // Measured from the deepest level, so that the columns are straight.
  const left = placer.left(deepest);
  const room = unified ? 2 * VALUE_WIDTH : 0;
  const right = placer.right(deepest) - 6;
  const isKnown = !unified && facts.values[side].length + facts.tensorOf[side].length > 0;
  const areWide = hasDetails && isKnown && right - left >= (NAME_WIDTH + WIDE) * scale;
  const more = areWide ? WIDE : 2 * room;
  const end = Math.min(right, left + (FARTHEST + more) * scale);
  const ticks = end - TICKS_WIDTH * scale;
  const error = ticks - measure.width(WIDEST_ERROR, font, 400) - 2 * ERROR_ROOM * scale;
  const bar = error - BAR_WIDTH * scale;
  const areShown = hasDetails && end - left >= (LEAST_WIDTH + room) * scale;
  const flag = bar - FLAG_WIDTH * scale;
  const reference = flag - ERROR_ROOM * scale;
  const debug = reference - (unified ? VALUE_WIDTH * scale : 0);
  const norm = flag - ERROR_ROOM * scale;
  const dtype = norm - (NORM_WIDTH + DTYPE_WIDTH) * scale;
  const shape = dtype - SHAPE_WIDTH * scale;
  const ofOutput = { areWide, norm, dtype, shape };
  return { areShown, ticks, error, bar, end, flag, debug, reference, ...ofOutput };
}
