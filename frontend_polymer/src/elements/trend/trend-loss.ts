// The losses of the runs that a page of trends shows, over all their steps.

import { farthestApart, type Losses } from '../../data/losses';
import { fetchCells, fetchTrend } from '../../data/trend';
import type { Fetch } from '../../data/api';
import { Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { lossCurve } from '../parts/loss-curve';

/** More steps than this are shown by what is farthest from zero of several. */
const MOST_COLUMNS = 1000;

/** Their curves under the names of the files; null where none recorded a loss. */
export async function lossPart(
  fetch: Fetch,
  files: readonly string[],
  rank: number,
  { text, width }: { text: Texts; width: number },
  signal: AbortSignal,
): Promise<HTMLElement | null> {
  const losses = await fetchLosses(fetch, files, rank, signal);
  const names = losses.lines.map(({ side }) => files[side === Side.NPU ? 0 : 1]!);
  return lossCurve(losses, names, width, text);
}

/** Of the first file and, where there is one, the second; runs that recorded no loss have no line. */
async function fetchLosses(
  fetch: Fetch,
  files: readonly string[],
  rank: number,
  signal: AbortSignal,
): Promise<Losses> {
  const found = await Promise.all(files.map((file) => fetchLoss(fetch, file, rank, signal)));
  const steps = [...new Set(found.flatMap((loss) => [...loss.keys()]))].sort((a, b) => a - b);
  const lines = found.flatMap((loss, at) =>
    loss.size
      ? [{ side: at ? Side.BENCH : Side.NPU, values: steps.map((step) => loss.get(step)) }]
      : [],
  );
  return { steps, lines, apart: farthestApart(steps, ...lines.map(({ values }) => values)) };
}

/** The loss at each step: the mean of several, as of micro-steps. */
async function fetchLoss(
  fetch: Fetch,
  file: string,
  rank: number,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, number>> {
  const { losses, ranks, steps } = await fetchTrend(fetch, file, signal);
  const loss = new Map<number, number>();
  if (!losses.length || !ranks.length) return loss;
  const cells = await fetchCells(
    fetch,
    {
      ...{ file, other: '', statistic: 'mean', fixed: 'rank', rows: losses, columns: steps },
      ...{ at: ranks.includes(rank) ? rank : ranks[0]!, width: MOST_COLUMNS },
    },
    signal,
  );
  cells.columns.forEach((step, at) => {
    const there = cells.rows.flatMap((row) => (row[at] === undefined ? [] : [row[at]]));
    if (there.length) loss.set(step, there.reduce((sum, one) => sum + one, 0) / there.length);
  });
  return loss;
}
