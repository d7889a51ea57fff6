import { expect, test } from 'vitest';
import { longestIncreasing } from '../../src/layout/increasing';
import { forSeeds } from '../graphs/random';

/** The most elements of which each is larger than the one before, by trying all subsets. */
function mostByTrying(values: number[]): number {
  let most = 0;
  for (let subset = 0; subset < 2 ** values.length; subset++) {
    const taken = values.filter((_, at) => (subset >> at) % 2 === 1);
    const isIncreasing = taken.every((value, at) => at === 0 || taken[at - 1]! < value);
    if (isIncreasing) most = Math.max(most, taken.length);
  }
  return most;
}

test('the longest part that increases keeps its order, and equal values apart', () => {
  forSeeds(200, (random) => {
    const values = Array.from({ length: random.below(9) }, () => random.below(8));
    const pairs = values.map((value, at) => [at, value] as const);
    const found = longestIncreasing(pairs);
    expect(found).toHaveLength(mostByTrying(values));
    found.forEach(([at, value], place) => {
      expect(values[at]).toBe(value);
      if (place === 0) return;
      expect(found[place - 1]![0]).toBeLessThan(at);
      expect(found[place - 1]![1]).toBeLessThan(value);
    });
  });
});
