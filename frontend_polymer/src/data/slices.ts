// Where two tensors differ: what the slices of rows and columns hold of the difference.

import type { ParameterRow } from '../generated/graph_pb';

/** As msprobe_builder/base/codes.py and sketch/definition.py have them. */
const SLICES = 16;
const PERIOD = 64;
const WHOLE = 255;

/** Rows, which are all dimensions but the last, or columns, which are the last. */
export interface Axis {
  readonly length: number;
  /** How many are in a slice. */
  readonly slice: number;
  /** Of the squares of the difference, 0 … 1, by slice that is not empty. */
  readonly shares: readonly number[];
}

export interface Slices {
  readonly rows: Axis;
  readonly columns: Axis;
}

/** The slices of a row's difference; undefined where none is known. */
export function slicesOf({ npu, comparison }: ParameterRow): Slices | undefined {
  const held = comparison?.slices;
  if (!npu || held?.length !== 2 * SLICES) return undefined;
  const shape = (npu.shape.match(/\d+/g) ?? []).map(Number);
  // A complex number is two beside each other.
  const columns = (shape.at(-1) ?? 1) * (npu.dtype.includes('omplex') ? 2 : 1);
  const rows = shape.slice(0, -1).reduce((size, length) => size * length, 1);
  if (rows < 1 || columns < 1 || !Number.isSafeInteger(rows * columns)) return undefined;
  return {
    rows: axis(rows, held.subarray(0, SLICES)),
    columns: axis(columns, held.subarray(SLICES)),
  };
}

function axis(length: number, held: Uint8Array): Axis {
  const part = Math.ceil(length / SLICES);
  const slice = part <= PERIOD ? part : Math.ceil(part / PERIOD) * PERIOD;
  const count = Math.ceil(length / slice);
  return { length, slice, shares: [...held.subarray(0, count)].map((share) => share / WHOLE) };
}

/** The first and the last of a slice. */
export function boundsOf({ length, slice }: Axis, place: number): [number, number] {
  return [place * slice, Math.min(length, (place + 1) * slice) - 1];
}
