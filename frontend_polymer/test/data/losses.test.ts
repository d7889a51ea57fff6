import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';

import { lossesOf } from '../../src/data/losses';
import { GraphPairSchema, Side } from '../../src/generated/graph_pb';

type Pair = MessageInitShape<typeof GraphPairSchema>;

const losses = (graphs: readonly Pair[]) =>
  lossesOf(graphs.map((pair) => create(GraphPairSchema, pair)));

test('a step has the mean of the ranks that recorded one', () => {
  const { steps, lines, apart } = losses([
    { step: 3, rank: 0, npuLoss: 2, benchLoss: 4 },
    { step: 1, rank: 0, npuLoss: 5, benchLoss: 5 },
    { step: 1, rank: 1 },
    { step: 3, rank: 1, npuLoss: 4, benchLoss: 4 },
  ]);
  expect(steps).toEqual([1, 3]);
  expect(lines).toEqual([
    { side: Side.NPU, values: [5, 3] },
    { side: Side.BENCH, values: [5, 4] },
  ]);
  expect(apart).toEqual({ step: 3, share: 0.25 });
});

test('a side without losses has no line', () => {
  expect(losses([{ step: 0, benchLoss: 1 }])).toEqual({
    steps: [0],
    lines: [{ side: Side.BENCH, values: [1] }],
    apart: null,
  });
  expect(losses([{ step: 0 }]).lines).toEqual([]);
});

test('what is not finite stays so and is not measured', () => {
  const { lines, apart } = losses([
    { step: 0, npuLoss: NaN, benchLoss: 1 },
    { step: 1, npuLoss: 2, benchLoss: 0 },
  ]);
  expect(lines[0]!.values).toEqual([NaN, 2]);
  expect(apart).toBeNull();
});
