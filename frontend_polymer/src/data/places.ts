// One node in all steps and ranks, laid out as a table whose longer direction lies across.

import type { NodeAcross } from '../generated/graph_pb';

export type Measure = 'error' | 'difference' | 'max' | 'min' | 'mean' | 'norm';

const COLUMNS = {
  error: 'error',
  difference: 'relativeDifference',
  max: 'maxRelativeErr',
  min: 'minRelativeErr',
  mean: 'meanRelativeErr',
  norm: 'normRelativeErr',
} as const satisfies Record<Measure, keyof NodeAcross>;

export interface PlaceTable {
  /** What the rows stand for; the columns stand for the other. */
  readonly rows: 'step' | 'rank';
  readonly rowKeys: readonly number[];
  readonly columnKeys: readonly number[];
  /** Place among the columns of the answer, by row and column; -1 where there is no such node. */
  readonly at: readonly (readonly number[])[];
}

/** A number of one place; undefined where nothing was compared. */
export function valueAt(across: NodeAcross, at: number, measure: Measure): number | undefined {
  const value = across[COLUMNS[measure]][at];
  return value === undefined || value === -1 ? undefined : value;
}

/** The measures that any place has. */
export function measuresOf(across: NodeAcross): Measure[] {
  return (Object.keys(COLUMNS) as Measure[]).filter((measure) =>
    across.index.some((_, at) => valueAt(across, at, measure) !== undefined),
  );
}

/** What is not a number is the worst there can be. */
export function severity(value: number | undefined): number {
  if (value === undefined) return -1;
  return Number.isNaN(value) ? Infinity : value;
}

/** The ranks with the largest errors, in their own order; all of them when they are few. */
export function worstRanks(across: NodeAcross, most: number): number[] {
  const worst = new Map<number, number>();
  for (const [at, rank] of across.rank.entries()) {
    const size = severity(valueAt(across, at, 'error'));
    worst.set(rank, Math.max(worst.get(rank) ?? -1, size));
  }
  const ranks = [...worst].sort(([, one], [, other]) => other - one).map(([rank]) => rank);
  return ascending(ranks.slice(0, most));
}

/** The table of these ranks. */
export function placeTable(across: NodeAcross, ranks: readonly number[]): PlaceTable {
  const steps = ascending(across.step);
  const rows = steps.length > ranks.length ? 'rank' : 'step';
  const [rowKeys, columnKeys] = rows === 'rank' ? [ranks, steps] : [steps, ranks];
  const key = (step: number, rank: number) => `${step}/${rank}`;
  const places = new Map(
    across.index.map((_, at) => [key(across.step[at]!, across.rank[at]!), at] as const),
  );
  const at = rowKeys.map((row) =>
    columnKeys.map(
      (column) => places.get(rows === 'rank' ? key(column, row) : key(row, column)) ?? -1,
    ),
  );
  return { rows, rowKeys, columnKeys, at };
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((one, other) => one - other);
}
