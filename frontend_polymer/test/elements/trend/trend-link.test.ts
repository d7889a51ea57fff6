import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { lookIn, lookText, rangeOf } from '../../../src/elements/trend/trend-link';
import { TrendSchema } from '../../../src/generated/graph_pb';

const trend = create(TrendSchema, { steps: [0, 10, 20, 30] });

describe('the link of the page of trends', () => {
  it('brings back names with any characters', () => {
    const look = {
      chosen: { run: 'a&b=c/运行.trend.db', fixed: 'step', at: '3', filter: '100%' },
      steps: [10, 20] as const,
    };
    expect(lookIn(lookText(look))).toEqual(look);
  });

  it('leaves out what is malformed', () => {
    expect(lookIn('steps=20-x&unknown=1&run=')).toEqual({ chosen: {}, steps: null });
  });

  it.each([
    [
      [10, 20],
      [1, 2],
    ],
    [
      [5, 25],
      [1, 2],
    ],
    [[31, 99], null],
    [null, null],
  ] as const)('finds the steps %j among those of the file', (wanted, places) => {
    expect(rangeOf(trend, wanted)).toEqual(places);
  });
});
