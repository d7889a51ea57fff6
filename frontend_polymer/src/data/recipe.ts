// How a merged value was made, from the facts that the builder stored; see docs/design/facts.md. The
// sentence of an older file is kept as it is.

import { factsOf, general, type Argument, type Fact } from './facts';

export type Statistic = 'max' | 'min' | 'mean' | 'norm';

/** One statistic of a tensor that was cut into shards. */
export interface Combination {
  readonly statistic: Statistic;
  /** Per rank. */
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
  /** What ranks have that differ in it. */
  readonly apart: readonly Argument[];
  /** Whether elements may have changed places unseen. */
  readonly isOrderUntold: boolean;
  /** The rules that tell what the value is. */
  readonly because?: Fact;
  /** How the value of the first of these ranks had been made before. */
  readonly before?: { readonly rank: string; readonly recipe: Recipe };
  /** What was made of the ranks' values. */
  readonly made: readonly Fact[];
}

const KINDS: Readonly<Record<string, Recipe['kind']>> = {
  'recipe.shards': 'shards',
  'recipe.partial': 'partial',
  'unmerged.partial': 'lostTotal',
  'unmerged.depends': 'unknown',
  'recipe.unknown': 'unknown',
  'recipe.alike': 'asRecorded',
  'recipe.different': 'asRecorded',
};
const BESIDE = ['no_order', 'because', 'before', 'stage', 'apart'].map((one) => `recipe.${one}`);
const STATISTICS: readonly Statistic[] = ['max', 'min', 'mean', 'norm'];

/** Reads what the builder stored; nothing means that a rank's own record is shown. */
export function readRecipe(stored: string): Recipe {
  const [first] = factsOf(stored);
  if (!first) return recipeOf([]);
  return recipeOf(first.code === 'recipe' ? facts(first['facts']) : [first]);
}

/** Whether the values were left open. */
export function isUnknown(stored: string): boolean {
  const isOpen = (recipe: Recipe | undefined): boolean =>
    recipe !== undefined &&
    (['lostTotal', 'unknown'].includes(recipe.kind) || isOpen(recipe.before?.recipe));
  return isOpen(readRecipe(stored));
}

function recipeOf(all: readonly Fact[]): Recipe {
  const made = all.filter(({ code }) => !BESIDE.includes(code));
  const main = made[0];
  const find = (code: string) => all.find((one) => one.code === `recipe.${code}`);
  const [because, before, stage] = ['because', 'before', 'stage'].map(find);
  const along = facts(main?.['along'])[0]?.['dimension'];
  return {
    kind: kindOf(made),
    ranks: texts(main?.['ranks']),
    ...(along === undefined ? {} : { dimension: shown(along) }),
    combinations: facts(facts(main?.['statistics'])[0]?.['statistics']).flatMap(combination),
    ...(stage
      ? { stage: { number: shown(stage['stage'] ?? ''), ranks: texts(stage['ranks']) } }
      : {}),
    apart: list(find('apart')?.['apart']),
    isOrderUntold: find('no_order') !== undefined,
    ...(because ? { because } : {}),
    ...(before
      ? {
          before: {
            rank: shown(before['rank'] ?? ''),
            recipe: recipeOf(facts(before['recipe'])),
          },
        }
      : {}),
    made,
  };
}

function kindOf(made: readonly Fact[]): Recipe['kind'] {
  if (made.length === 0) return 'asRecorded';
  return (made.length === 1 ? KINDS[made[0]!.code] : undefined) ?? 'other';
}

function combination(fact: Fact): Combination[] {
  const statistic = STATISTICS.find((one) => fact.code === `recipe.${one}`);
  if (!statistic) return [];
  const parts = list(fact['parts']).map((one) => shown(facts(one)[0]?.['value'] ?? one));
  return [{ statistic, parts, merged: shown(fact['whole'] ?? '') }];
}

function list(value: Argument | undefined): readonly Argument[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly Argument[]) : [value];
}

function facts(value: Argument | undefined): readonly Fact[] {
  return list(value).filter((one): one is Fact => typeof one === 'object' && 'code' in one);
}

function texts(value: Argument | undefined): readonly string[] {
  return list(value).map(shown);
}

function shown(value: Argument): string {
  if (typeof value === 'number') return general(value, 9);
  return typeof value === 'string' ? value : '';
}
