import { describe, expect, it } from 'vitest';

import { isUnknown, readRecipe } from '../../src/data/recipe';
import { en } from '../../src/i18n/en';
import { zh } from '../../src/i18n/zh';
import type { Argument, Fact } from '../../src/data/facts';

function fact(code: string, more: Record<string, Argument> = {}): Fact {
  return { code, ...more };
}

function stored(...facts: Fact[]): string {
  return JSON.stringify([fact('recipe', { facts })]);
}

const SQUARES = [3, 4].map((value) => fact('recipe.square', { value }));
const NUMBERS = fact('recipe.statistics', {
  statistics: [
    fact('recipe.max', { parts: [1, 'inf'], whole: 'inf' }),
    fact('recipe.min', { parts: [-2e-5, 0], whole: -2e-5 }),
    fact('recipe.mean', { parts: [0.25, 'nan'], whole: 'nan' }),
    fact('recipe.norm', { parts: SQUARES, whole: 5 }),
  ],
});
const SHARDS = fact('recipe.shards', {
  ranks: [2, 3],
  along: fact('recipe.along', { dimension: 1 }),
  statistics: NUMBERS,
});
const STAGE = fact('recipe.stage', { stage: 1, ranks: [2, 3] });

function because(code: string, more: Record<string, Argument> = {}): Fact {
  return fact('recipe.because', { why: fact('recipe.reasons', { reasons: [fact(code, more)] }) });
}

describe('readRecipe', () => {
  it('reads shards with their numbers', () => {
    const recipe = readRecipe(stored(SHARDS));
    expect(recipe.kind).toBe('shards');
    expect(recipe.ranks).toEqual(['2', '3']);
    expect(recipe.dimension).toBe('1');
    expect(recipe.isOrderUntold).toBe(false);
    expect(recipe.combinations).toEqual([
      { statistic: 'max', parts: ['1', 'inf'], merged: 'inf' },
      { statistic: 'min', parts: ['-2e-05', '0'], merged: '-2e-05' },
      { statistic: 'mean', parts: ['0.25', 'nan'], merged: 'nan' },
      { statistic: 'norm', parts: ['3', '4'], merged: '5' },
    ]);
  });

  it('says them as the command line does', () => {
    expect(en.verdict.tell(stored(SHARDS, STAGE))).toBe(
      'shards of ranks 2, 3 along dimension 1: max(1, inf) = inf; min(-2e-05, 0) = -2e-05; mean weighted by elements (0.25, nan) = nan; norm √(3² + 4²) = 5; from pipeline stage 1 (rank 2, 3)',
    );
    expect(zh.verdict.tell(stored(STAGE))).toBe('取自流水线第 1 段（rank 2、3）');
  });

  it('reads that statistics do not tell the order, and a cut that is not known', () => {
    const shards = { ...SHARDS, along: fact('recipe.along_unknown') };
    const recipe = readRecipe(stored(shards, fact('recipe.no_order'), STAGE));
    expect(recipe.kind).toBe('shards');
    expect(recipe.isOrderUntold).toBe(true);
    expect(recipe.dimension).toBeUndefined();
    expect(recipe.combinations).toHaveLength(4);
    expect(recipe.stage).toEqual({ number: '1', ranks: ['2', '3'] });
  });

  it('reads what was done before to the value of one rank, and the rule of each', () => {
    const before = fact('recipe.before', {
      rank: 0,
      recipe: [SHARDS, because('reason.holds', { name: 'RMSNorm' })],
    });
    const recipe = readRecipe(
      stored(fact('recipe.partial'), because('reason.of_shards'), before, STAGE),
    );
    expect(recipe.kind).toBe('partial');
    expect(en.verdict.word(recipe.because?.['why'] ?? '')).toBe('its call took in shards');
    expect(recipe.before?.rank).toBe('0');
    expect(recipe.before?.recipe.dimension).toBe('1');
    expect(zh.verdict.word(recipe.before?.recipe.because?.['why'] ?? '')).toBe(
      'RMSNorm 如此持有它',
    );
    expect(recipe.stage?.number).toBe('1');
  });

  it('reads what differing ranks have', () => {
    const values = fact('statistics', { max: 2, min: 1, mean: 1, norm: 3 });
    const apart = [fact('apart.replica', { rank: 1, values }), fact('apart.stage', { rank: 4 })];
    const recipe = readRecipe(
      stored(fact('recipe.different', { ranks: [0, 1] }), fact('recipe.apart', { apart })),
    );
    expect(recipe.kind).toBe('asRecorded');
    expect(recipe.apart.map((one) => en.verdict.word(one))[0]).toBe(
      'rank 1 has max 2, min 1, mean 1, norm 3',
    );
  });

  it.each([
    ['', 'asRecorded'],
    [stored(STAGE), 'asRecorded'],
    [stored(fact('recipe.partial')), 'partial'],
    [stored(fact('unmerged.partial')), 'lostTotal'],
    [stored(fact('unmerged.depends')), 'unknown'],
    [stored(fact('recipe.unknown', { why: 'it is so' }), STAGE), 'unknown'],
    [stored(fact('recipe.alike', { ranks: [0, 1] }), because('reason.of_shards')), 'asRecorded'],
    [stored(fact('said_by_a_later_builder')), 'other'],
    ['alike on ranks 0, 1, as an older file says', 'other'],
  ])('reads %s as %s', (text, kind) => {
    expect(readRecipe(text).kind).toBe(kind);
    expect(isUnknown(text)).toBe(kind === 'unknown' || kind === 'lostTotal');
  });

  it('keeps the words of an older file', () => {
    expect(en.verdict.word(readRecipe('sum of 2 ranks').made)).toBe('sum of 2 ranks');
  });
});
