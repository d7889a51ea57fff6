import { expect, test } from 'vitest';
import { Graph } from '../../src/data/graph';
import { Direction, Kind } from '../../src/generated/graph_pb';
import { counterparts } from '../../src/layout/counterpart';
import type { Graphs } from '../../src/layout/sides';
import { encodePair, type Sketch } from '../graphs/synthetic';

function graphsOf(npu: Sketch, bench: Sketch | null): Graphs {
  const [one, other] = encodePair(npu, bench);
  return [Graph.decode(one), other && Graph.decode(other)];
}

function beside(npu: Sketch, bench: Sketch | null): number[][] {
  return counterparts(graphsOf(npu, bench)).map((side) => [...side]);
}

const call = (stem: string, number: number, key?: string): Sketch => ({
  ...{ stem, kind: Kind.API, direction: Direction.FORWARD, call: number },
  ...(key === undefined ? {} : { key }),
});

test('without a reference nothing stands beside a node', () => {
  expect(beside({ stem: 'root', children: [call('Tensor.add', 0)] }, null)).toEqual([[-1, -1], []]);
});

test('roots stand beside each other though nothing in them is alike', () => {
  const npu = { stem: 'one', children: [call('Tensor.add', 0)] };
  const bench = { stem: 'other', children: [call('Tensor.mul', 0)] };
  expect(beside(npu, bench)).toEqual([
    [0, -1],
    [0, -1],
  ]);
});

test('a matched node stands beside its partner, not beside the one of its name', () => {
  const npu = { stem: 'root', children: [call('Tensor.add', 0, 'a'), call('Tensor.add', 1)] };
  const bench = { stem: 'root', children: [call('Tensor.add', 1, 'a'), call('Tensor.add', 0)] };
  expect(beside(npu, bench)).toEqual([
    [0, 1, -1],
    [0, 1, -1],
  ]);
});

test('nodes of one name that nobody has matched stand beside each other', () => {
  const npu = { stem: 'root', children: [call('Tensor.add', 0), call('Tensor.mul', 0)] };
  const bench = { stem: 'root', children: [call('Tensor.mul', 0), call('Tensor.add', 1)] };
  expect(beside(npu, bench)).toEqual([
    [0, -1, 1],
    [0, 2, -1],
  ]);
});

test('modules stand beside those that hold the partners of what they hold, at any depth', () => {
  const inner = (stem: string, key: string): Sketch => ({
    stem,
    children: [{ stem: `${stem}.inner`, children: [call(`Torch.${stem}`, 0, key)] }],
  });
  const npu = { stem: 'root', children: [call('Tensor.add', 0), inner('a', 'k')] };
  const bench = { stem: 'root', children: [inner('b', 'k')] };
  expect(beside(npu, bench)).toEqual([
    [0, -1, 1, 2, 3],
    [0, 2, 3, 4],
  ]);
});

test('sides that match differently are damaged, whichever side says so', () => {
  const npu = { stem: 'root', children: [call('Tensor.add', 0, 'a'), call('Tensor.mul', 0)] };
  const bench = { stem: 'root', children: [call('Tensor.add', 0, 'a'), call('Tensor.mul', 0)] };
  for (const side of [0, 1]) {
    const graphs = graphsOf(npu, bench);
    graphs[side]!.partner[2] = 1;
    expect(() => counterparts(graphs)).toThrow('the two sides match differently');
  }
});
