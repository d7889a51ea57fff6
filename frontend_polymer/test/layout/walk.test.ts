import { expect, test } from 'vitest';
import { Direction, Kind, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { parentOf, stepFrom } from '../../src/layout/walk';
import { graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

const call = (stem: string): Sketch => ({
  ...{ stem, key: stem, kind: Kind.API, direction: Direction.FORWARD },
});

// Indices: 0 root, 1 inner, 2 a, 3 b, 4 c
const inner: Sketch = { stem: 'Module.inner.M', key: 'inner', children: [call('a'), call('b')] };
const sketch: Sketch = { stem: 'root', key: 'root', children: [inner, call('c')] };

function at(index: number, side = Side.NPU) {
  return { side, index };
}

test('steps go from row to row and stay at either end', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  hierarchy.expansion.expandAll();
  hierarchy.relayout();
  const reach = (from: number, rows: number) => stepFrom(hierarchy, Side.NPU, at(from), rows).index;
  expect([0, 1, 2, 3, 4].map((from) => reach(from, 1))).toEqual([1, 2, 3, 4, 4]);
  expect([0, 1, 2, 3, 4].map((from) => reach(from, -1))).toEqual([0, 0, 1, 2, 3]);
  expect([reach(1, 3), reach(1, 30), reach(3, -2), reach(3, -30)]).toEqual([4, 4, 1, 0]);
});

test('without a start the first step comes to the first row', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  expect(stepFrom(hierarchy, Side.NPU, null, 1)).toEqual(at(0));
  expect(stepFrom(hierarchy, Side.NPU, null, 2)).toEqual(at(1));
  expect(stepFrom(hierarchy, Side.NPU, null, -1)).toEqual(at(0));
});

test('a step from what is folded away starts where it is folded', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  expect(stepFrom(hierarchy, Side.NPU, at(3), 1)).toEqual(at(4));
  expect(stepFrom(hierarchy, Side.NPU, at(2), -1)).toEqual(at(0));
});

test('rows that hold nothing of this side are passed', () => {
  const npu: Sketch = { stem: 'root', key: 'root', children: [call('a'), call('n'), call('c')] };
  const bench: Sketch = { stem: 'root', key: 'root', children: [call('a'), call('c')] };
  const hierarchy = new Hierarchy(graphPair(npu, bench));
  const rows = [...hierarchy.rows.node[Side.BENCH]];
  expect(rows).toEqual([0, 1, -1, 2]);
  expect(stepFrom(hierarchy, Side.BENCH, at(1, Side.BENCH), 1)).toEqual(at(2, Side.BENCH));
  expect(stepFrom(hierarchy, Side.BENCH, at(2, Side.BENCH), -1)).toEqual(at(1, Side.BENCH));
});

test('at an end of rows that hold nothing of this side the last one that does is reached', () => {
  const npu: Sketch = { stem: 'root', key: 'root', children: [call('a'), call('n')] };
  const bench: Sketch = { stem: 'root', key: 'root', children: [call('a')] };
  const hierarchy = new Hierarchy(graphPair(npu, bench));
  expect([...hierarchy.rows.node[Side.BENCH]]).toEqual([0, 1, -1]);
  expect(stepFrom(hierarchy, Side.BENCH, at(0, Side.BENCH), 2)).toEqual(at(1, Side.BENCH));
  expect(stepFrom(hierarchy, Side.BENCH, at(1, Side.BENCH), 1)).toEqual(at(1, Side.BENCH));
});

test('the parent is the one above, and the root has none', () => {
  const hierarchy = new Hierarchy([singleGraph(sketch), null]);
  expect([1, 2, 3, 4].map((index) => parentOf(hierarchy, at(index))?.index)).toEqual([0, 1, 1, 0]);
  expect(parentOf(hierarchy, at(0))).toBeNull();
});

test('only one side may be shown', () => {
  const hierarchy = new Hierarchy(graphPair(sketch, sketch));
  expect(hierarchy.rows.node[Side.NPU][0]).toBe(0);
  hierarchy.only = Side.BENCH;
  expect(hierarchy.rows.node[Side.BENCH][0]).toBe(0);
  expect([...hierarchy.rows.node[Side.NPU]].every((node) => node === -1)).toBe(true);
  expect(hierarchy.shown(at(0))).toBeNull();
  expect(hierarchy.shown(at(2))).toBeNull();
  expect(hierarchy.shown(at(2, Side.BENCH))).toEqual(at(1, Side.BENCH));
  expect(hierarchy.nodeNear(0)).toEqual(at(0, Side.BENCH));
});

test('what these graphs do not hold has no row', () => {
  const hierarchy = new Hierarchy(graphPair(sketch, sketch));
  expect([0, 1, 2, 4, 5].map((index) => hierarchy.rowOf(at(index)))).toEqual([0, 1, -1, 2, -1]);
});
