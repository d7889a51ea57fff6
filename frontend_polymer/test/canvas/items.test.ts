import { expect, test } from 'vitest';
import { overflowOf, type Item } from '../../src/canvas/items';
import type { Frame } from '../../src/canvas/frame';
import { Direction, Kind, Overflow, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { graphPair, type Sketch } from '../graphs/synthetic';

const layer = (number: number, overflow: Overflow): Sketch => ({
  ...{
    stem: `Module.layers.${number}.Block`,
    direction: Direction.FORWARD,
    key: `layer${number}`,
    overflow,
  },
  children: [
    {
      stem: 'Torch.add',
      kind: Kind.API,
      direction: Direction.FORWARD,
      call: number,
      key: `add${number}`,
    },
  ],
});
const MODEL: Sketch = {
  ...{ stem: 'DefaultModel', key: 'root' },
  children: [
    layer(0, Overflow.NONE),
    layer(1, Overflow.CRITICAL),
    layer(2, Overflow.HIGH),
    layer(3, Overflow.NONE),
  ],
};

test('a folded series has the worst overflow of its layers, an unfolded one none of its own', () => {
  const hierarchy = new Hierarchy(graphPair(MODEL, MODEL));
  hierarchy.foldsLayers = true;
  hierarchy.relayout();
  const tree = hierarchy.trees[Side.NPU];
  const { graph } = tree;
  const series = graph.count;
  expect(tree.isSeries(series)).toBe(true);
  const frame = { tree, graph } as Frame;
  const of = (id: number, isOpen: boolean) => overflowOf(frame, { id, isOpen } as Item);
  expect(of(series, false)).toBe(Overflow.CRITICAL);
  expect(of(series, true)).toBe(Overflow.NONE);
  const levels = [0, 1, 3, 5, 7].map((node) => of(node, true));
  expect(levels).toEqual([
    ...[Overflow.NONE, Overflow.NONE, Overflow.CRITICAL, Overflow.HIGH, Overflow.NONE],
  ]);
});
