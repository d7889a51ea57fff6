import { describe, expect, test } from 'vitest';
import type { Graph } from '../../src/data/graph';
import { Direction, Grade, Kind, Side } from '../../src/generated/graph_pb';
import { decodeBits, decodeOpen, encodeBits, encodeOpen } from '../../src/layout/code';
import { Hierarchy } from '../../src/layout/hierarchy';
import { SIDES } from '../../src/layout/sides';
import { forSeeds, randomPair, randomTree } from '../graphs/random';
import { graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

const api = (key: string, grade: Grade): Sketch => ({
  ...{ stem: `Torch.${key}`, kind: Kind.API, direction: Direction.FORWARD, key, grade },
});
const module = (key: string, grade: Grade, ...children: Sketch[]): Sketch => ({
  ...{ stem: `Module.${key}.M`, direction: Direction.FORWARD, key, grade, children },
});

// Indices: 0 root, 1 good, 2 a, 3 bad, 4 inner, 5 b, 6 c
const sketch = (): Sketch => ({
  ...{ stem: 'DefaultModel', key: 'root' },
  children: [
    module('good', Grade.OK, api('a', Grade.SLIGHT)),
    module(
      'bad',
      Grade.OK,
      module('inner', Grade.MODERATE, api('b', Grade.SEVERE)),
      api('c', Grade.OK),
    ),
  ],
});

function openNodes(hierarchy: Hierarchy, side: Side): number[] {
  const graph = hierarchy.graphs[side]!;
  return Array.from({ length: graph.count }, (_, node) => node).filter((node) =>
    hierarchy.expansion.isOpen(side, node),
  );
}

describe('folding', () => {
  test('starts with the root open', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    expect(openNodes(hierarchy, Side.NPU)).toEqual([0]);
    expect(openNodes(hierarchy, Side.BENCH)).toEqual([0]);
    expect(hierarchy.rows.count).toBe(3);
  });

  test('remembers what was open inside a module that is closed and opened again', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    const { expansion } = hierarchy;
    expansion.set(Side.NPU, 3, true);
    expansion.set(Side.NPU, 4, true);
    hierarchy.relayout();
    const before = [...hierarchy.rows.node[0]];
    expansion.set(Side.NPU, 3, false);
    hierarchy.relayout();
    expect([...hierarchy.rows.node[0]]).toEqual([0, 1, 3]);
    expansion.set(Side.NPU, 3, true);
    hierarchy.relayout();
    expect([...hierarchy.rows.node[0]]).toEqual(before);
  });

  test('goes along on the other side when in step, and only then', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    hierarchy.expansion.set(Side.BENCH, 3, true);
    expect(hierarchy.expansion.isOpen(Side.NPU, 3)).toBe(true);
    hierarchy.expansion.sync = false;
    hierarchy.expansion.set(Side.NPU, 3, false);
    expect(hierarchy.expansion.isOpen(Side.BENCH, 3)).toBe(true);
  });

  test('leaves nodes without children alone', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    hierarchy.expansion.set(Side.NPU, 2, true);
    expect(hierarchy.expansion.isOpen(Side.NPU, 2)).toBe(false);
  });

  test('to a level shows exactly the nodes down to it', () => {
    forSeeds(20, (random) => {
      const hierarchy = new Hierarchy(graphPair(...randomPair(random, 60)));
      const level = 1 + random.below(4);
      hierarchy.expansion.toLevel(level);
      hierarchy.relayout();
      for (const side of SIDES) {
        const { depth } = hierarchy.graphs[side]!;
        hierarchy.rows.rowOf[side].forEach((row, node) => {
          expect(row >= 0).toBe(depth[node]! <= level);
        });
      }
    });
  });

  test('to errors opens the paths to them and nothing else, on both sides', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    hierarchy.expansion.expandAll();
    hierarchy.expansion.toErrors(Grade.SERIOUS);
    expect(openNodes(hierarchy, Side.NPU)).toEqual([0, 3, 4]);
    expect(openNodes(hierarchy, Side.BENCH)).toEqual([0, 3, 4]);
    hierarchy.expansion.toErrors(Grade.SLIGHT);
    expect(openNodes(hierarchy, Side.NPU)).toEqual([0, 1, 3, 4]);
  });

  test('to errors opens on the debug side all that holds one, folded layers too', () => {
    forSeeds(30, (random) => {
      const hierarchy = new Hierarchy(graphPair(...randomPair(random, 120)));
      hierarchy.foldsLayers = random.chance(0.5);
      const [tree] = hierarchy.trees;
      const least = random.pick([Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE]);
      hierarchy.expansion.expandAll();
      hierarchy.expansion.toErrors(least);
      for (let id = 1; id < tree.size; id++) {
        const worst = tree.graph.rollup.worstGrade(tree.start(id), tree.end(id));
        expect(hierarchy.expansion.isOpen(Side.NPU, id)).toBe(worst >= least);
      }
    });
  });

  test('to errors leaves the root open when there are none', () => {
    const healthy: Sketch = { stem: 'DefaultModel', key: 'root', children: [api('a', Grade.OK)] };
    const hierarchy = new Hierarchy(graphPair(healthy, healthy));
    hierarchy.expansion.toErrors(Grade.SLIGHT);
    expect(openNodes(hierarchy, Side.NPU)).toEqual([0]);
    expect(openNodes(hierarchy, Side.BENCH)).toEqual([0]);
  });

  test('below a node opens all of it', () => {
    const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
    hierarchy.expansion.expandBelow(Side.BENCH, 3);
    expect(openNodes(hierarchy, Side.NPU)).toEqual([0, 3, 4]);
  });
});

test('revealing a node gives it and its counterpart a row', () => {
  forSeeds(40, (random) => {
    const hierarchy = new Hierarchy(graphPair(...randomPair(random, 60)));
    hierarchy.expansion.sync = random.chance(0.5);
    const node = { side: Side.NPU, index: random.below(hierarchy.graphs[0].count) };
    hierarchy.expansion.reveal(node.side, node.index);
    hierarchy.relayout();
    expect(hierarchy.rowOf(node)).toBeGreaterThanOrEqual(0);
    const other = hierarchy.counterpart(node);
    if (other) expect(hierarchy.rowOf(other)).toBeGreaterThanOrEqual(0);
  });
});

test('revealing what stands in a folded root unfolds the root', () => {
  const hierarchy = new Hierarchy(graphPair(sketch(), sketch()));
  hierarchy.expansion.sync = false;
  for (const side of SIDES) hierarchy.expansion.set(side, 0, false);
  hierarchy.expansion.reveal(Side.NPU, 5);
  expect(openNodes(hierarchy, Side.NPU)).toEqual([0, 3, 4]);
  expect(openNodes(hierarchy, Side.BENCH)).toEqual([0, 3, 4]);
});

describe('what is open, as text', () => {
  const openOf = (graph: Graph, isOpen: (node: number) => boolean): Uint8Array =>
    Uint8Array.from({ length: graph.count }, (_, node) =>
      graph.hasChildren(node) && isOpen(node) ? 1 : 0,
    );

  test('comes back as it was', () => {
    forSeeds(60, (random) => {
      const graph = singleGraph(randomTree(random, random.chance(0.2) ? 3000 : 200));
      const share = random.chance(0.3) ? 0.01 : random.next();
      const open = openOf(graph, () => random.chance(share));
      const text = encodeOpen(graph, open);
      expect(text).toMatch(/^[\w-]*$/);
      expect(decodeOpen(graph, text)).toEqual(open);
    });
  });

  test('of bits comes back from every text that holds so many', () => {
    forSeeds(200, (random) => {
      const count = 1 + random.below(70);
      const letters = Array.from({ length: random.below(6) }, () =>
        random.pick('ABCDZaghz09-_'.split('')),
      );
      const bits = decodeBits(letters.join(''), count);
      if (bits === null) return;
      expect(bits).toHaveLength(count);
      expect(decodeBits(encodeBits(bits), count)).toEqual(bits);
    });
    const long = new Uint8Array(40_000).fill(1, 39_999);
    expect(decodeBits(encodeBits(long), 40_000)!.indexOf(1)).toBe(39_999);
  });

  test.each([
    ['', 3, '000'],
    ['C', 3, '001'], // two zeros, and what is left
    ['C', 2, null], // nothing is left
    ['AC', 3, '110'],
    ['ABB', 3, '101'],
    ['BAB', 3, null], // a run of none
    ['ABg', 3, null], // a number without its end
    ['A!', 3, null],
  ])('%s for %i bits is %s', (text, count, bits) => {
    expect(decodeBits(text, count)?.join('') ?? null).toBe(bits);
  });

  test('is short for what is common', () => {
    const graph = singleGraph({
      stem: 'DefaultModel',
      children: Array.from({ length: 5000 }, (_, index) =>
        module(`m${index}`, Grade.OK, api('x', Grade.OK)),
      ),
    });
    expect(
      encodeOpen(
        graph,
        openOf(graph, () => false),
      ),
    ).toBe('');
    expect(
      encodeOpen(
        graph,
        openOf(graph, () => true),
      ).length,
    ).toBe(1);
    expect(
      encodeOpen(
        graph,
        openOf(graph, (node) => node === 0 || node > 5000),
      ).length,
    ).toBeLessThan(9);
  });

  test.each(['!', 'A A', 'g', 'ggggggggggA', 'BBBBBBBBBB', 'AAB'])(
    '%s belongs to no small graph',
    (text) => {
      expect(decodeOpen(singleGraph(sketch()), text)).toBeNull();
    },
  );
});
