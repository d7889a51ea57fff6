import { describe, expect, it } from 'vitest';

import { asRanges, differences, isOutlier, scores } from '../../src/data/trend';
import { slid, zoomed } from '../../src/elements/trend/trend-range';

describe('numbers as the routes take them', () => {
  it('puts neighbours together', () => {
    expect(asRanges([0, 3, 5, 6, 7, 9, 10])).toBe('0,3,5-7,9-10');
    expect(asRanges([4])).toBe('4');
  });
});

describe('what is unusual', () => {
  it('is far from the median of its row', () => {
    const row = [10, 10.1, 9.9, 10, 10.05, 40, NaN, undefined];
    const found = scores(row);
    const marked = row.map((value, at) => isOutlier(value, found[at], false));
    expect(marked).toEqual([false, false, false, false, false, true, true, false]);
    expect(found[5]).toBe(1);
  });

  it('is nothing in a row that never changes', () => {
    expect(scores([2, 2, 2])).toEqual([0, 0, 0]);
    expect(scores([0, 0])).toEqual([0, 0]);
    expect(scores([])).toEqual([]);
  });

  it('is of two runs a difference of more than one percent', () => {
    const row = [0, 1e-6, -1e-3, 0.5, NaN, undefined];
    const found = differences(row);
    expect(found[1]).toBeCloseTo(0);
    expect(found[2]).toBeCloseTo(-0.5);
    expect(row.map((value, at) => isOutlier(value, found[at], true))).toEqual([
      false,
      false,
      false,
      true,
      true,
      false,
    ]);
  });
});

describe('the wheel', () => {
  it('keeps the step below the pointer, and shows all of them again', () => {
    expect(zoomed([0, 100], 100, 0.5, true)).toEqual([10, 90]);
    expect(zoomed([10, 90], 100, 0.5, false)).toBeNull();
    expect(zoomed([0, 4], 4, 0.5, true)).toBeNull();
  });

  it('moves along the steps as far as there are any', () => {
    expect(slid([10, 29], 100, 0.5)).toEqual([20, 39]);
    expect(slid([10, 29], 100, -1)).toEqual([0, 19]);
    expect(slid([90, 99], 100, 3)).toEqual([91, 100]);
    expect(slid([10, 19], 100, 0.01)).toEqual([11, 20]);
  });
});
