import { expect, test } from 'vitest';
import { Direction, Kind, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { openAround } from '../../src/layout/state';
import { decodeOpen } from '../../src/layout/code';
import { singleGraph, type Sketch } from '../graphs/synthetic';

const call = (stem: string): Sketch => ({ stem, kind: Kind.API, direction: Direction.FORWARD });
const module = (stem: string, ...children: Sketch[]): Sketch => ({ stem, children });

// Indices: 0 root, 1 left, 2 a, 3 right, 4 inner, 5 b
const sketch = module(
  'root',
  module('Module.left.M', call('a')),
  module('Module.right.M', module('Module.right.inner.M', call('b'))),
);

function openNodes(index: number): number[] {
  const graph = singleGraph(sketch);
  const hierarchy = new Hierarchy([graph, null]);
  hierarchy.expansion.expandAll();
  hierarchy.relayout();
  const row = hierarchy.rowOf({ side: Side.NPU, index });
  const [nodes] = openAround(hierarchy, [row])[0].split('.');
  const open = decodeOpen(graph, nodes ?? '')!;
  return Array.from({ length: graph.count }, (_, node) => node).filter((node) => open[node]);
}

test('around a row stays unfolded what it stands in, up to the root', () => {
  expect(openNodes(0)).toEqual([0]);
  expect(openNodes(2)).toEqual([0, 1]);
  expect(openNodes(3)).toEqual([0, 3]);
  expect(openNodes(5)).toEqual([0, 3, 4]);
});
