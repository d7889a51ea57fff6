import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { texts } from '../../../src/i18n';
import { labelOf, ordered, RowOrder } from '../../../src/elements/trend/trend-rows';
import { TrendSchema } from '../../../src/generated/graph_pb';

const trend = create(TrendSchema, {
  kinds: ['weight', 'activation', 'forward'],
  kind: [0, 0, 1, 1, 2],
  names: ['a.weight', 'b.weight', 'a', 'b', 'Module.b.Linear.0:output.0'],
  groups: ['a', 'b'],
  group: [0, 1, 0, 1, 1],
});

describe('the rows of a trend', () => {
  it('of one module stand together, in the order of the model', () => {
    expect(ordered(trend, [0, 1, 2, 3], null)).toEqual([0, 2, 1, 3]);
  });

  it('begin with the module that holds what moves most', () => {
    expect(ordered(trend, [0, 1, 2, 3], [0, 0.5, 0.1, 2])).toEqual([3, 1, 2, 0]);
    expect(ordered(trend, [0, 1, 2], [0, 0.5, 0.1, 2])).toEqual([1, 2, 0]);
  });

  it('put what is not finite first and keep the order of what moves alike', () => {
    expect(ordered(trend, [0, 1, 2, 3], [Infinity, 1, Infinity, 1])).toEqual([0, 2, 1, 3]);
    expect(ordered(trend, [0, 1, 2, 3], [1, Infinity, 1, 1])).toEqual([1, 3, 0, 2]);
  });

  it('are called by their module and what they are there', () => {
    const labels = [0, 2, 4].map((target) => labelOf(trend, target, false, texts()));
    expect(labels).toEqual([
      { group: 'a', rest: 'weight weight' },
      { group: 'a', rest: 'activation' },
      { group: 'b', rest: 'forward Linear.0:output.0' },
    ]);
    expect(labelOf(trend, 2, true, texts()).rest).toBe('activation');
    expect(labelOf(trend, 0, true, texts()).rest).toBe('weight');
  });

  it('ask once for what is the same, and only the last question counts', async () => {
    const order = new RowOrder();
    let answer: (moves: number[]) => void = () => undefined;
    const slow = order.settle({ rank: 0 }, () => new Promise((done) => (answer = done)));
    expect(await order.settle({ rank: 1 }, () => Promise.resolve([2]))).toBe(true);
    answer([1]);
    expect(await slow).toBe(false);
    expect(order.moves).toEqual([2]);
    expect(await order.settle({ rank: 1 }, () => Promise.reject(new Error('again')))).toBe(true);
    expect(await order.settle(null, () => Promise.reject(new Error('asked')))).toBe(true);
    expect(order.moves).toBeNull();
  });
});
