import { expect, test } from 'vitest';
import { Direction, Kind, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { known, openAround, openOf, restoreOpen } from '../../src/layout/state';
import { decodeOpen } from '../../src/layout/code';
import { graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

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

test('around a row nothing is said to be unfolded that is not', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  const rows = hierarchy.rows.node[Side.NPU].map((_, row) => row);
  expect(openAround(hierarchy, rows)).toEqual(openOf(hierarchy));
});

test('a link is said to fit when both of its sides do', () => {
  const hierarchy = () => new Hierarchy(graphPair(sketch, sketch));
  const all = hierarchy();
  all.expansion.expandAll();
  const [npu, bench] = openOf(all);
  expect(restoreOpen(hierarchy(), [npu, bench])).toBe(true);
  expect(restoreOpen(hierarchy(), ['BBBBBBBBBB', bench])).toBe(false);
  expect(restoreOpen(hierarchy(), [npu, 'BBBBBBBBBB'])).toBe(false);
  const half = hierarchy();
  restoreOpen(half, ['BBBBBBBBBB', bench]);
  expect(half.expansion.isOpen(Side.NPU, 3)).toBe(false);
  expect(half.expansion.isOpen(Side.BENCH, 3)).toBe(true);
});

test('known are the nodes from the root to the last, on the sides that are there', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  const there = (side: Side, index: number) => known(hierarchy, { side, index }) !== null;
  expect([-1, 0, 5, 6].map((index) => there(Side.NPU, index))).toEqual([false, true, true, false]);
  expect(there(Side.BENCH, 0)).toBe(false);
  expect(known(hierarchy, null)).toBeNull();
});
