// How a merged value was made, read from the sentence that the builder stored; see
// docs/parallel-merge.md. A sentence of another form is kept as it is.

export type Statistic = 'max' | 'min' | 'mean' | 'norm';

/** One statistic of a tensor that was cut into shards. */
export interface Combination {
  readonly statistic: Statistic;
  /** Per rank, as written. */
  readonly parts: readonly string[];
  readonly merged: string;
}

export interface Recipe {
  readonly kind: 'shards' | 'partial' | 'lostTotal' | 'unknown' | 'other' | 'asRecorded';
  readonly ranks: readonly string[];
  /** Of the cut; absent when it is not known. */
  readonly dimension?: string;
  readonly combinations: readonly Combination[];
  /** The pipeline stage it was taken from, and its ranks, where the node ran on several. */
  readonly stage?: { readonly number: string; readonly ranks: readonly string[] };
  /** What ranks have that differ in it, as the builder words it. */
  readonly apart?: readonly string[];
  /** Whether elements may have changed places unseen. */
  readonly orderUntold?: true;
  /** The rule that tells what the value is, as the builder words it. */
  readonly reason?: string;
  /** How the value of the first of these ranks had been made before. */
  readonly before?: { readonly rank: string; readonly recipe: Recipe };
  readonly sentence: string;
}

const STAGE = /(?:^|; )from pipeline stage (\d+) \(rank ([\d, ]+)\)$/;
const BEFORE = /; of rank (\d+) before: /;
const APART = /(?:^|; )but (.*)$/;
const BECAUSE = /(?:^|; )because ([^;]*)$/;
const ALIKE = /^(?:alike on ranks [\d, ]+|different on ranks [\d, ]+, shown as on rank \d+)$/;
const ORDER_UNTOLD = '; whether elements are in their places cannot be told from statistics';
const SHARDS = /^shards of ranks ([\d, ]+) along (?:dimension (\d+)|an unknown dimension): (.*)$/;
const RULES: readonly (readonly [Statistic, RegExp])[] = [
  ['max', /^max\((.*)\) = (\S+)$/],
  ['min', /^min\((.*)\) = (\S+)$/],
  ['mean', /^mean weighted by elements \((.*)\) = (\S+)$/],
  ['norm', /^norm √\((.*)\) = (\S+)$/],
];

/** Reads what the builder wrote; an empty text means that a rank's own record is shown. */
export function parseRecipe(sentence: string): Recipe {
  const apart = APART.exec(sentence);
  const merged = apart ? sentence.slice(0, apart.index) : sentence;
  const stage = STAGE.exec(merged);
  const whole = stage ? merged.slice(0, stage.index) : merged;
  const but = apart ? { apart: apart[1]!.split('; ') } : {};
  const from = stage ? { stage: { number: stage[1]!, ranks: list(stage[2]!) } } : {};
  const turn = BEFORE.exec(whole);
  const told = turn ? whole.slice(0, turn.index) : whole;
  const because = BECAUSE.exec(told);
  const made = because ? told.slice(0, because.index) : told;
  const rest = made.replace(ORDER_UNTOLD, '');
  const untold = rest === made ? {} : { orderUntold: true as const };
  const why = because ? { reason: because[1]! } : {};
  const earlier = turn && {
    before: { rank: turn[1]!, recipe: parseRecipe(whole.slice(turn.index + turn[0].length)) },
  };
  const base = {
    ranks: [],
    combinations: [],
    ...from,
    ...earlier,
    ...why,
    ...untold,
    ...but,
    sentence,
  };
  const shards = SHARDS.exec(rest);
  if (shards) {
    const [, ranks, dimension, rules] = shards;
    const combinations = rules!.split('; ').map(combination);
    if (combinations.every((one) => one !== undefined)) {
      const cut = dimension === undefined ? {} : { dimension };
      return { ...base, kind: 'shards', ranks: list(ranks!), combinations, ...cut };
    }
  }
  if (rest === '' || ALIKE.test(rest)) return { ...base, kind: 'asRecorded' };
  if (rest.startsWith('partial results,')) return { ...base, kind: 'partial' };
  if (rest.startsWith('partial sums') && isUnknown(rest)) return { ...base, kind: 'lostTotal' };
  if (isUnknown(rest)) return { ...base, kind: 'unknown' };
  return { ...base, kind: 'other' };
}

/** Whether the values were left open. */
export function isUnknown(recipe: string): boolean {
  return /: unknown(?:;|$)/.test(recipe);
}

function combination(text: string): Combination | undefined {
  for (const [statistic, pattern] of RULES) {
    const found = pattern.exec(text);
    if (!found) continue;
    const parts =
      statistic === 'norm'
        ? found[1]!.split(' + ').map((part) => part.replace(/²$/, ''))
        : list(found[1]!);
    return { statistic, parts, merged: found[2]! };
  }
  return undefined;
}

function list(text: string): string[] {
  return text.split(', ');
}
