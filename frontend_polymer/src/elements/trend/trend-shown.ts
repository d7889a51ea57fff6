import type { Cells, Fixed, Window } from '../../data/trend';
import type { Trend } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { formatNumber } from '../parts/format';
import { kindOf, labelOf, type RowLabel } from './trend-rows';
import { ROW, type Drawn } from './trend-map';

/** The values on screen and what they are of. */
export interface Shown {
  readonly cells: Cells;
  readonly scores: readonly (readonly (number | undefined)[])[];
  /** Place of its first row among all rows. */
  readonly first: number;
  readonly names: readonly string[];
  readonly labels: readonly RowLabel[];
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

/** One value in words: whose it is, and when. */
export function valueText(
  shown: Shown,
  trend: Trend,
  row: number,
  column: number,
  { trend: words }: Texts,
): string {
  const place = placeOf(shown, row, column);
  const value = shown.cells.rows[row - shown.first]![column];
  const written = value === undefined ? words.nothing : formatNumber(value);
  return words.value(
    trend.names[place.target]!,
    stepsOf(shown, column, place),
    place.rank,
    written,
  );
}

/** Where an axis may be held, targets only if they are among these: values and words of the choices. */
export function placesOf(
  trend: Trend,
  fixed: Fixed,
  targets: readonly number[],
  text: Texts,
): readonly [string, string][] {
  const { steps, ranks } = trend;
  if (fixed === 'rank') return ranks.map((one) => same(String(one)));
  if (fixed === 'step') return steps.map((one) => same(String(one)));
  return targets.map((at) => [String(at), wholeName(trend, at, text)]);
}

/** Kind and name of what is measured. */
function wholeName(trend: Trend, at: number, text: Texts): string {
  return `${kindOf(trend, at, text)} ${trend.names[at]!}`;
}

/** What rows are called: their ranks where a target is held, else names, with the kind unless it is chosen. */
export function rowNames(trend: Trend, { fixed, rows }: Window, kind: string, text: Texts) {
  if (fixed === 'target') return rows.map((at) => `${text.trend.fixedBy.rank} ${at}`);
  return rows.map((at) => (kind ? trend.names[at]! : wholeName(trend, at, text)));
}

/** What stands beside rows: where a target is held, nothing but their rank. */
export function rowLabels(
  trend: Trend,
  { fixed, rows }: Window,
  kind: string,
  text: Texts,
): RowLabel[] {
  if (fixed !== 'target') return rows.map((at) => labelOf(trend, at, kind !== '', text));
  return rows.map((at) => ({ group: `${text.trend.fixedBy.rank} ${at}`, rest: '' }));
}

/** A choice that is called what it is. */
export function same(value: string): [string, string] {
  return [value, value];
}

/** The targets of a kind whose names hold a part; of every kind when it is none of them. */
export function targetsOf({ names, kind, kinds }: Trend, wanted: string, part: string): number[] {
  const place = kinds.indexOf(wanted);
  const low = part.toLowerCase();
  return names.flatMap((name, at) =>
    (place < 0 || kind[at] === place) && name.toLowerCase().includes(low) ? [at] : [],
  );
}

/** Where the columns that are there lie among those that are wanted, in pixels. */
export function columnsIn(
  { columns, fixed }: Window,
  wanted: readonly number[],
  steps: readonly number[],
  width: number,
): { left: number; width: number } {
  if (fixed === 'step' || !columns.length || !wanted.length) return { left: 0, width };
  const away = steps.indexOf(columns[0]!) - steps.indexOf(wanted[0]!);
  const one = width / wanted.length;
  return { left: away * one, width: columns.length * one };
}

/** Rows are asked for by so many, beginning one block above those in view. */
const BLOCK = 8;

/** The rows to ask for when some are in view. */
export function blockOf(first: number, count: number): readonly [number, number] {
  const from = Math.max(0, (Math.floor(first / BLOCK) - 1) * BLOCK);
  return [from, (Math.ceil((first + count) / BLOCK) + 1) * BLOCK];
}

/** What the map is to draw of that, scrolled so far, among the columns that are wanted. */
export function drawnOf(
  shown: Shown | null,
  scrolled: number,
  chosenRow: number | undefined,
  extent: { left: number; width: number },
): Drawn {
  const first = shown?.first ?? 0;
  return {
    cells: shown?.cells ?? NOTHING,
    scores: shown?.scores ?? [],
    labels: shown?.labels ?? [],
    isDifference: Boolean(shown?.window.other),
    top: first * ROW - scrolled,
    chosen: (chosenRow ?? -1) - first,
    ...extent,
  };
}

const NOTHING: Cells = { columns: [], rows: [] };

/** For tests: names of rows, columns and values. */
export function sceneOf({ window, names, cells }: Shown) {
  return { file: window.file, other: window.other, names, ...cells };
}

/** The steps that a column stands for, all but its value hidden: `4`, or `4–7`. */
export function stepsOf({ cells, window }: Shown, column: number, { step }: TrendPlace): string {
  if (window.fixed === 'step') return String(step);
  const next = cells.columns[column + 1];
  const end = next === undefined ? window.columns.length : window.columns.indexOf(next);
  const last = window.columns[end - 1]!;
  return last > step ? `${step}–${last}` : String(step);
}
