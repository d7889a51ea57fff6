// Trends: the files, their axes, and what of them is on screen.

import { fromBinary } from '@bufbuild/protobuf';

import {
  TrendGraphsSchema,
  TrendMovesSchema,
  TrendSchema,
  TrendsSchema,
  TrendValuesSchema,
  type Trend,
  type TrendFile,
  type TrendGraph,
} from '../generated/graph_pb';
import { decoded, fetchBytes, routeUrl, type Fetch } from './api';

/** Which axis is held at one place; the other two are the rows and columns. */
export type Fixed = 'rank' | 'step' | 'target';

/** What is asked of the server: rows and columns, and where the third axis is held. */
export interface Window {
  readonly file: string;
  readonly other: string;
  readonly statistic: string;
  readonly fixed: Fixed;
  readonly at: number;
  readonly rows: readonly number[];
  readonly columns: readonly number[];
  /** At most so many columns come back. */
  readonly width: number;
}

/** Rows of numbers; `undefined` where nothing was recorded. */
export interface Cells {
  /** The step or rank at which each column begins. */
  readonly columns: readonly number[];
  readonly rows: readonly (readonly (number | undefined)[])[];
}

export async function fetchTrends(fetch: Fetch, signal: AbortSignal): Promise<TrendFile[]> {
  const body = await fetchBytes(fetch, routeUrl('trends'), signal);
  return decoded(() => fromBinary(TrendsSchema, body)).files;
}

export async function fetchTrend(fetch: Fetch, file: string, signal: AbortSignal): Promise<Trend> {
  const body = await fetchBytes(fetch, routeUrl('trend', { file }), signal);
  return decoded(() => fromBinary(TrendSchema, body));
}

export async function fetchTrendGraphs(
  fetch: Fetch,
  place: { file: string; target: number; step: number; rank: number },
  signal: AbortSignal,
): Promise<TrendGraph[]> {
  const body = await fetchBytes(fetch, routeUrl('trend_graphs', place), signal);
  return decoded(() => fromBinary(TrendGraphsSchema, body)).graphs;
}

export async function fetchCells(
  fetch: Fetch,
  window: Window,
  signal: AbortSignal,
): Promise<Cells> {
  const { fixed, at, rows, columns, other } = window;
  const steps = fixed === 'step' ? [at] : columns;
  const body = await fetchBytes(
    fetch,
    routeUrl('trend_values', {
      file: window.file,
      ...(other ? { other } : {}),
      statistic: window.statistic,
      targets: fixed === 'target' ? at : asRanges(rows),
      ranks: fixed === 'rank' ? at : asRanges(fixed === 'step' ? columns : rows),
      first: steps[0]!,
      last: steps.at(-1)!,
      columns: window.width,
    }),
    signal,
  );
  const found = decoded(() => fromBinary(TrendValuesSchema, body));
  const count = fixed === 'step' ? columns.length : found.firstStep.length;
  return {
    columns: fixed === 'step' ? columns : found.firstStep,
    rows: rows.map((_, row) =>
      Array.from({ length: count }, (_value, column) => {
        const place = row * count + column;
        return found.there[place] ? found.values[place] : undefined;
      }),
    ),
  };
}

/** How much each target of a file moves, over all steps where a rank is held, else over all ranks. */
export async function fetchMoves(
  fetch: Fetch,
  { names, steps, ranks }: Trend,
  {
    file,
    other,
    statistic,
    fixed,
    at,
  }: Pick<Window, 'file' | 'other' | 'statistic' | 'fixed' | 'at'>,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const isStep = fixed === 'step';
  const body = await fetchBytes(
    fetch,
    routeUrl('trend_moves', {
      file,
      ...(other ? { other } : {}),
      statistic,
      targets: `0-${names.length - 1}`,
      ranks: isStep ? asRanges(ranks) : at,
      first: isStep ? at : steps[0]!,
      last: isStep ? at : steps.at(-1)!,
      columns: 1,
    }),
    signal,
  );
  return decoded(() => fromBinary(TrendMovesSchema, body)).moves;
}

/** Numbers as the routes take them: `0,3,5-9`. */
export function asRanges(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < numbers.length;) {
    let end = at;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end]! + 1) end += 1;
    parts.push(end === at ? `${numbers[at]}` : `${numbers[at]}-${numbers[end]}`);
    at = end + 1;
  }
  return parts.join(',');
}

/** Farther from the median of its row than this many median deviations is an outlier. */
export const OUTLIER = 8;
/** Of two runs: a relative difference beyond this is one. */
export const APART = 0.01;

/**
 * How unusual each value of a row is, from -1 to 1; beyond the limit it is an outlier, as is what
 * is not finite. A row that never changes has none; where most values are alike, the smallest
 * deviation that counts is a thousandth of the median.
 */
export function scores(row: readonly (number | undefined)[]): (number | undefined)[] {
  const finite = row.filter((value): value is number => Number.isFinite(value));
  const middle = median(finite);
  const spread = 1.4826 * median(finite.map((value) => Math.abs(value - middle)));
  const unit = Math.max(spread, Math.abs(middle) * 1e-3, Number.MIN_VALUE);
  return row.map((value) =>
    value === undefined || !Number.isFinite(value)
      ? value
      : Math.max(-1, Math.min(1, (value - middle) / unit / OUTLIER)),
  );
}

/** The same of differences: by powers of ten, from a millionth to one. */
export function differences(row: readonly (number | undefined)[]): (number | undefined)[] {
  return row.map((value) => {
    if (value === undefined || !Number.isFinite(value) || value === 0) return value;
    const size = Math.max(0, Math.min(1, 1 + Math.log10(Math.abs(value)) / 6));
    return Math.sign(value) * size;
  });
}

/** Whether a value is to be marked. */
export function isOutlier(
  value: number | undefined,
  score: number | undefined,
  isDifference: boolean,
): boolean {
  if (value === undefined || score === undefined) return false;
  if (!Number.isFinite(value)) return true;
  return isDifference ? Math.abs(value) > APART : Math.abs(score) >= 1;
}

function median(values: readonly number[]): number {
  if (!values.length) return 0;
  const ordered = Float64Array.from(values).sort();
  const half = ordered.length >> 1;
  return ordered.length % 2 ? ordered[half]! : (ordered[half - 1]! + ordered[half]!) / 2;
}
