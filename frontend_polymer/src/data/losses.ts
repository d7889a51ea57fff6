import { Side, type GraphPair } from '../generated/graph_pb';

/** A side that recorded its loss: the mean over the ranks of each step. */
export interface LossLine {
  readonly side: Side;
  readonly values: readonly (number | undefined)[];
}

export interface Losses {
  readonly steps: readonly number[];
  /** Of the sides that recorded one. */
  readonly lines: readonly LossLine[];
  /** Where both are farthest apart, relative to the reference. */
  readonly apart: { readonly step: number; readonly share: number } | null;
}

export function lossesOf(graphs: readonly GraphPair[]): Losses {
  const steps = [...new Set(graphs.map(({ step }) => step))].sort((one, other) => one - other);
  const sums = new Map(steps.map((step) => [step, [sum(), sum()] as const]));
  for (const { step, npuLoss, benchLoss } of graphs) {
    [npuLoss, benchLoss].forEach((loss, side) => {
      if (loss === undefined) return;
      const into = sums.get(step)![side]!;
      into.total += loss;
      into.count += 1;
    });
  }
  const lines = [Side.NPU, Side.BENCH]
    .map((side) => ({ side, values: steps.map((step) => mean(sums.get(step)![side])) }))
    .filter(({ values }) => values.some((value) => value !== undefined));
  return { steps, lines, apart: farthestApart(steps, ...lines.map(({ values }) => values)) };
}

interface Sum {
  total: number;
  count: number;
}

function sum(): Sum {
  return { total: 0, count: 0 };
}

function mean({ total, count }: Sum): number | undefined {
  return count ? total / count : undefined;
}

/** Where two lines are farthest apart; what is not finite shows by itself. */
export function farthestApart(
  steps: readonly number[],
  own: LossLine['values'] = [],
  theirs: LossLine['values'] = [],
): Losses['apart'] {
  let found: Losses['apart'] = null;
  steps.forEach((step, at) => {
    const [one, other] = [own[at], theirs[at]];
    if (one === undefined || !other) return;
    const share = Math.abs((one - other) / other);
    if (Number.isFinite(share) && share >= (found?.share ?? 0)) found = { step, share };
  });
  return found;
}
