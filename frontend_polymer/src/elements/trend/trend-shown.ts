import type { Cells, Fixed, Window } from '../../data/trend';
import type { Trend } from '../../generated/graph_pb';

/** The values on screen and what they are of. */
export interface Shown {
  readonly cells: Cells;
  readonly scores: readonly (readonly (number | undefined)[])[];
  /** Place of its first row among all rows. */
  readonly first: number;
  readonly names: readonly string[];
  readonly window: Window;
}

export interface TrendPlace {
  readonly step: number;
  readonly rank: number;
  readonly target: number;
}

/** Whose value stands in a row, counted from the first of all, and a column. */
export function placeOf({ cells, window, first }: Shown, row: number, column: number): TrendPlace {
  const { at, fixed } = window;
  const [line, begin] = [window.rows[row - first]!, cells.columns[column]!];
  const places: Record<Fixed, TrendPlace> = {
    rank: { step: begin, rank: at, target: line },
    step: { step: at, rank: begin, target: line },
    target: { step: begin, rank: line, target: at },
  };
  return places[fixed];
}

/** Where an axis may be held: values and words of the choices. */
export function placesOf(trend: Trend, fixed: Fixed): readonly [string, string][] {
  const { steps, ranks, names } = trend;
  if (fixed === 'rank') return ranks.map((one) => same(String(one)));
  if (fixed === 'step') return steps.map((one) => same(String(one)));
  return names.map((_, at) => [String(at), wholeName(trend, at)]);
}

/** Kind and name of what is measured. */
export function wholeName({ names, kinds, kind }: Trend, at: number): string {
  return `${kinds[kind[at]!]!} ${names[at]!}`;
}

/** A choice that is called what it is. */
export function same(value: string): [string, string] {
  return [value, value];
}
