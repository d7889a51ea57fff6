import { describe, expect, it } from 'vitest';

import {
  blockOf,
  columnsIn,
  placeOf,
  stepsOf,
  type Shown,
} from '../../../src/elements/trend/trend-shown';

const STEPS = [0, 10, 20, 30, 40];
const window = {
  file: 'a',
  other: '',
  statistic: 'norm',
  fixed: 'rank' as const,
  at: 1,
  rows: [7, 8],
  columns: STEPS,
  width: 3,
};
const cells = { columns: [0, 20, 40], rows: [[1, 2, 3]] };
const shown: Shown = { cells, scores: [], first: 4, names: ['x', 'y'], labels: [], window };

describe('what is on screen', () => {
  it('says which steps one column stands for', () => {
    const told = [0, 1, 2].map((at) => stepsOf(shown, at, placeOf(shown, 4, at)));
    expect(told).toEqual(['0–10', '20–30', '40']);
  });

  it('says one step where each has its column', () => {
    const each = { ...shown, cells: { columns: STEPS, rows: [[1, 2, 3, 4, 5]] } };
    expect(stepsOf(each, 3, placeOf(each, 4, 3))).toBe('30');
  });

  it('lies where its steps are among those that are wanted', () => {
    expect(columnsIn(window, STEPS, STEPS, 100)).toEqual({ left: 0, width: 100 });
    expect(columnsIn(window, [20, 30], STEPS, 100)).toEqual({ left: -100, width: 250 });
    const part = { ...window, columns: [20, 30] };
    expect(columnsIn(part, STEPS, STEPS, 100)).toEqual({ left: 40, width: 40 });
  });

  it('is asked for in blocks that reach beyond the view', () => {
    expect(blockOf(0, 10)).toEqual([0, 24]);
    expect(blockOf(17, 10)).toEqual([8, 40]);
    expect(blockOf(18, 10)).toEqual(blockOf(17, 10));
  });
});
