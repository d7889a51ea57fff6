import { describe, expect, it } from 'vitest';

import { isUnknown, parseRecipe } from '../../src/data/recipe';

const NUMBERS =
  'max(1, inf) = inf; min(-2e-05, 0) = -2e-05; mean weighted by elements (0.25, nan) = nan; norm √(3² + 4²) = 5';

describe('parseRecipe', () => {
  it('reads shards with their numbers', () => {
    const recipe = parseRecipe(`shards of ranks 2, 3 along dimension 1: ${NUMBERS}`);
    expect(recipe.kind).toBe('shards');
    expect(recipe.ranks).toEqual(['2', '3']);
    expect(recipe.dimension).toBe('1');
    expect(recipe.combinations).toEqual([
      { statistic: 'max', parts: ['1', 'inf'], merged: 'inf' },
      { statistic: 'min', parts: ['-2e-05', '0'], merged: '-2e-05' },
      { statistic: 'mean', parts: ['0.25', 'nan'], merged: 'nan' },
      { statistic: 'norm', parts: ['3', '4'], merged: '5' },
    ]);
  });

  it('reads that statistics do not tell the order, wherever it stands', () => {
    const untold = '; whether elements are in their places cannot be told from statistics';
    for (const behind of ['', '; because it is so', '; from pipeline stage 1 (rank 2, 3)']) {
      const recipe = parseRecipe(
        `shards of ranks 0, 1 along dimension 0: ${NUMBERS}${untold}${behind}`,
      );
      expect(recipe.kind).toBe('shards');
      expect(recipe.combinations).toHaveLength(4);
      expect(recipe.orderUntold).toBe(true);
    }
    expect(parseRecipe(`shards of ranks 0, 1 along dimension 0: ${NUMBERS}`).orderUntold).toBe(
      undefined,
    );
  });

  it('reads shards whose cut is not known, taken from one of several stages', () => {
    const recipe = parseRecipe(
      `shards of ranks 0, 1 along an unknown dimension: ${NUMBERS}; from pipeline stage 1 (rank 2, 3)`,
    );
    expect(recipe.kind).toBe('shards');
    expect(recipe.dimension).toBeUndefined();
    expect(recipe.stage).toEqual({ number: '1', ranks: ['2', '3'] });
    expect(recipe.combinations).toHaveLength(4);
  });

  it('reads what was done before to the value of one rank', () => {
    const first = `shards of ranks 0, 1 along dimension 2: ${NUMBERS}`;
    const then = 'partial results, shown as their reduction over the ranks';
    const recipe = parseRecipe(
      `${then}; of rank 0 before: ${first}; from pipeline stage 2 (rank 4)`,
    );
    expect(recipe.kind).toBe('partial');
    expect(recipe.stage?.number).toBe('2');
    expect(recipe.before?.rank).toBe('0');
    expect(recipe.before?.recipe.dimension).toBe('2');
    expect(recipe.before?.recipe.combinations).toHaveLength(4);
  });

  it('reads the rule that was followed, of each account its own', () => {
    const recipe = parseRecipe(
      `shards of ranks 0, 2 along dimension 0: ${NUMBERS}; because its call took in shards; of rank 0 before: alike on ranks 0, 1; because RMSNorm holds it so; from pipeline stage 1 (rank 2, 3)`,
    );
    expect(recipe.kind).toBe('shards');
    expect(recipe.combinations).toHaveLength(4);
    expect(recipe.reason).toBe('its call took in shards');
    expect(recipe.before?.recipe.kind).toBe('asRecorded');
    expect(recipe.before?.recipe.reason).toBe('RMSNorm holds it so');
    expect(recipe.stage?.number).toBe('1');
    expect(parseRecipe('because it is so').reason).toBe('it is so');
  });

  it('reads what differing ranks have', () => {
    const recipe = parseRecipe(
      'different on ranks 0, 1, shown as on rank 0; because RMSNorm holds it so; from pipeline stage 1 (rank 2, 3); but rank 1 has max 2, min 1, mean 1, norm 3, rank 1 is off; the stage of rank 4 has max 5',
    );
    expect(recipe.kind).toBe('asRecorded');
    expect(recipe.stage?.number).toBe('1');
    expect(recipe.apart).toEqual([
      'rank 1 has max 2, min 1, mean 1, norm 3, rank 1 is off',
      'the stage of rank 4 has max 5',
    ]);
  });

  it.each([
    ['', 'asRecorded'],
    ['from pipeline stage 0 (rank 0, 1)', 'asRecorded'],
    ['partial results, shown as their reduction over the ranks', 'partial'],
    ['partial sums whose total was not recorded: unknown', 'lostTotal'],
    ['depends on the rank and is not reduced: unknown', 'unknown'],
    ['depends on the rank and is not reduced: unknown; from pipeline stage 3 (rank 7)', 'unknown'],
    ['alike on ranks 0, 1; because RMSNorm holds it so', 'asRecorded'],
    ['different on ranks 0, 1, shown as on rank 0', 'asRecorded'],
    ['something that a later builder says', 'other'],
    ['shards of ranks 0, 1 along dimension 0: median(1, 2) = 1.5', 'other'],
  ])('reads "%s" as %s', (sentence, kind) => {
    const recipe = parseRecipe(sentence);
    expect(recipe.kind).toBe(kind);
    expect(recipe.sentence).toBe(sentence);
    expect(isUnknown(sentence)).toBe(kind === 'unknown' || kind === 'lostTotal');
  });
});
