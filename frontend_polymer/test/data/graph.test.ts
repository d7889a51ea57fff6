import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { decodeColumns } from '../../src/data/columns';
import { Graph } from '../../src/data/graph';
import { damaged, ProblemError } from '../../src/data/problem';
import {
  CallRole,
  Direction,
  Grade,
  Kind,
  SkeletonSchema,
  type Skeleton,
} from '../../src/generated/graph_pb';
import { forSeeds, randomPair, randomTree } from '../graphs/random';
import { encodePair, flatten, graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

const { FORWARD, BACKWARD } = Direction;

const small: Sketch = {
  stem: 'DefaultModel',
  key: 'root',
  children: [
    {
      ...{ stem: 'Module.a.Linear', direction: FORWARD, call: 3, key: 'a', grade: Grade.SEVERE },
      role: CallRole.CARRIER,
      children: [
        { stem: 'Functional.linear', kind: Kind.API, direction: FORWARD, call: 12, key: 'f' },
        { stem: 'Tensor.add', kind: Kind.API, direction: BACKWARD, call: 0, reason: 'shape' },
      ],
    },
    { stem: 'Apis_Between_Modules.0', kind: Kind.COLLECTION, key: 'c' },
  ],
};

describe('a decoded graph', () => {
  const [npu, bench] = graphPair(small, {
    ...{ stem: 'DefaultModel', key: 'root' },
    children: [
      { stem: 'Apis_Between_Modules.0', kind: Kind.COLLECTION, key: 'c' },
      ...small.children!.slice(0, 1),
    ],
  });

  test('names nodes as the dump does', () => {
    expect([0, 1, 2, 3, 4].map((index) => npu.name(index))).toEqual([
      'DefaultModel',
      'Module.a.Linear.forward.3',
      'Functional.linear.12.forward',
      'Tensor.add.0.backward',
      'Apis_Between_Modules.0',
    ]);
  });

  test('columns that say nothing share their room', () => {
    const graph = singleGraph({ stem: 'DefaultModel', children: [{ stem: 'layer' }] });
    expect([...graph.role]).toEqual([0, 0]);
    expect(new Set([graph.role, graph.source, graph.certainty]).size).toBe(1);
    expect([...graph.group, ...graph.error]).toEqual([-1, -1, -1, -1]);
    expect(graph.group).toBe(graph.error);
  });

  test('knows the roles of the calls of the first side', () => {
    expect(npu.roleOf(1)).toBe(CallRole.CARRIER);
    expect(npu.roleOf(2)).toBe(CallRole.UNKNOWN);
    expect(singleGraph({ stem: 'DefaultModel' }).roleOf(0)).toBe(CallRole.UNKNOWN);
  });

  test('knows parents, ranges, depths and children', () => {
    expect([...npu.parent]).toEqual([-1, 0, 1, 1, 0]);
    expect([...npu.end]).toEqual([5, 4, 3, 4, 5]);
    expect([...npu.depth]).toEqual([0, 1, 2, 2, 1]);
    expect([...npu.children(0)]).toEqual([1, 4]);
    expect([...npu.children(1)]).toEqual([2, 3]);
    expect(npu.ancestors(3)).toEqual([0, 1]);
    expect(npu.deepest).toBe(2);
  });

  test('knows partners on both sides', () => {
    expect([...npu.partner]).toEqual([0, 2, 3, -1, 1]);
    expect([...bench.partner]).toEqual([0, 4, 1, 2, -1]);
    expect(npu.unmatchedReasons[npu.unmatchedReason[3]!]).toBe('shape');
    expect(npu.unmatchedReason[2]).toBe(-1);
  });

  test('without a reference has no partners and no errors', () => {
    const graph = singleGraph(small);
    expect([...graph.partner]).toEqual([-1, -1, -1, -1, -1]);
    expect([...graph.error]).toEqual([-1, -1, -1, -1, -1]);
  });
});

test('columns equal those of the generated decoder', () => {
  forSeeds(20, (random) => {
    for (const bytes of encodePair(...randomPair(random, 80))) {
      const official = fromBinary(SkeletonSchema, bytes!);
      const columns = decodeColumns(bytes!);
      const { $typeName, $unknown, error, ...rest } = official;
      expect({ $typeName, $unknown }).toEqual({ $typeName: 'msprobe.graph.v1.Skeleton' });
      for (const [name, values] of Object.entries(rest)) {
        const column = columns[name as keyof typeof columns];
        expect(typeof column === 'object' ? [...column] : column, name).toEqual(values);
      }
      expect([...columns.error]).toEqual(error);
    }
  });
});

test('columns may come in pieces and without packing', () => {
  const whole = encodePair(small, null)[0];
  const piece = (field: number, value: number) => Uint8Array.of(field << 3, value);
  const { stem } = fromBinary(SkeletonSchema, whole);
  const official = fromBinary(SkeletonSchema, join(whole, piece(4, 1), piece(4, 0)));
  expect(official.stem).toEqual([...stem, 1, 0]);
  expect([...decodeColumns(join(whole, piece(4, 1), piece(4, 0))).stem]).toEqual(official.stem);
});

test('parents, ends and depths follow the sketched tree', () => {
  forSeeds(30, (random) => {
    const sketch = randomTree(random, 120);
    const graph = singleGraph(sketch);
    const nodes = flatten(sketch);
    expect(graph.count).toBe(nodes.length);
    const visit = (node: Sketch, index: number, parent: number, depth: number): number => {
      expect(graph.parent[index]).toBe(parent);
      expect(graph.depth[index]).toBe(depth);
      let next = index + 1;
      for (const child of node.children ?? []) next = visit(child, next, index, depth + 1);
      expect(graph.end[index]).toBe(next);
      return next;
    };
    expect(visit(sketch, 0, -1, 0)).toBe(graph.count);
  });
});

describe('a damaged skeleton is refused', () => {
  const message = () => fromBinary(SkeletonSchema, encodePair(small, small)[0]);
  const decode = (change: Partial<Omit<Skeleton, '$typeName'>>) => () =>
    Graph.decode(toBinary(SkeletonSchema, create(SkeletonSchema, { ...message(), ...change })));

  test.each<[string, Partial<Omit<Skeleton, '$typeName'>>, string]>([
    ['no node', { nodeCount: 0 }, 'it holds no node'],
    ['a short column', { kind: [0, 0, 1, 1] }, 'column kind has 4 values for 5 nodes'],
    ['an unknown stem', { stem: [0, 1, 2, 3, 9] }, 'column stem holds 9'],
    ['an unknown grade', { grade: [0, 0, 7, 0, 0] }, 'column grade holds 7'],
    ['an unknown role', { role: [0, 0, 0, 5, 0] }, 'column role holds 5'],
    ['a huge call number', { call: [0, 2 ** 31, 0, 0, 0] }, 'column call holds -2147483648'],
    ['subtrees that overlap', { subtreeSize: [5, 3, 2, 2, 1] }, 'its subtrees do not nest'],
    ['an empty subtree', { subtreeSize: [5, 3, 0, 1, 1] }, 'column'],
    ['two roots', { subtreeSize: [4, 3, 1, 1, 1] }, 'its subtrees do not nest'],
    ['too few partners', { partnerOffset: [0, 1] }, 'partners are missing'],
    ['too many partners', { partnerOffset: [0, 0, 0, 0, 0, 0] }, 'more partners than matched'],
    ['a partner before the first', { partnerOffset: [0, -2, 0, 0, 0] }, 'lies outside'],
    ['an error column of another length', { error: [1] }, 'column error has the wrong length'],
    ['an unknown reason', { unmatchedReason: [0, 0, 0, 5, 0] }, 'column unmatchedReason holds 5'],
  ])('%s', (_, change, text) => {
    const damage = text === 'column' ? 'its subtrees do not nest' : text;
    expect(decode(change)).toThrow(ProblemError);
    expect(decode(change)).toThrow(damage);
  });

  test('cut off anywhere', () => {
    const bytes = encodePair(small, small)[0];
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.slice(0, length);
      let graph: Graph | null = null;
      try {
        graph = Graph.decode(cut);
      } catch (error) {
        expect(error, `after ${length} bytes`).toBeInstanceOf(ProblemError);
      }
      // Whole fields at the end are optional; what remains must still be a graph.
      if (graph) expect(graph.name(1)).toBe('Module.a.Linear.forward.3');
    }
  });

  test.each([1, 2, 3, 5])('with an error column of %i bytes, which is said once', (length) => {
    const field = SkeletonSchema.field.error.number;
    const column = Uint8Array.of((field << 3) | 2, length, ...Array<number>(length).fill(0));
    const bytes = join(encodePair(small, small)[0], column);
    let said = '';
    try {
      Graph.decode(bytes);
    } catch (error) {
      said = (error as Error).message;
    }
    expect(said).toBe(damaged('column error is cut off').message);
  });

  test('with a number of more than 32 bits', () => {
    const bytes = join(
      encodePair(small, small)[0],
      Uint8Array.of(34, 6, 128, 128, 128, 128, 128, 1),
    );
    expect(() => Graph.decode(bytes)).toThrow('a number is too large');
  });

  test('nested deeper than any model', () => {
    const size = Array.from({ length: 1200 }, (_, index) => 1200 - index);
    const zeros = size.map(() => 0);
    const columns = { stem: zeros, direction: zeros, call: zeros, kind: zeros, microStep: zeros };
    const message = { ...columns, grade: zeros, stems: ['x'], nodeCount: 1200, subtreeSize: size };
    const bytes = toBinary(SkeletonSchema, create(SkeletonSchema, message));
    expect(() => Graph.decode(bytes)).toThrow('it nests more than 1000 levels');
  });
});

function join(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}
