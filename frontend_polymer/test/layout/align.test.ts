import { describe, expect, test } from 'vitest';
import type { Graph } from '../../src/data/graph';
import { Direction, Kind, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { bottomOf, rowAt, UNITS_PER_ROW } from '../../src/layout/rows';
import { SIDES } from '../../src/layout/sides';
import { forSeeds, randomPair, randomTree, type Random } from '../graphs/random';
import { graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

function randomHierarchy(random: Random): Hierarchy {
  const hierarchy = new Hierarchy(graphPair(...randomPair(random, 70)));
  hierarchy.expansion.sync = random.chance(0.5);
  for (const side of SIDES) {
    const graph = hierarchy.graphs[side]!;
    for (let node = 0; node < graph.count; node++) {
      if (random.chance(0.7)) hierarchy.expansion.set(side, node, true);
    }
  }
  hierarchy.microStep = random.chance(0.3) ? random.below(3) : -1;
  return hierarchy;
}

/** The tree with one or two modules of its own around some of its nodes, or around several in a row. */
function wrapped(random: Random, sketch: Sketch, most: number): Sketch {
  const children: Sketch[] = [];
  const rest = (sketch.children ?? []).map((child) => wrapped(random, child, most));
  while (rest.length > 0) {
    let inner = rest.splice(0, random.chance(0.3) ? 1 + random.below(most) : 1);
    for (let left = random.chance(0.3) ? 1 + random.below(2) : 0; left > 0; left--) {
      const stem = `Module.wrapper${random.below(1e9)}.Wrapper`;
      inner = [{ stem, kind: Kind.MODULE, children: inner }];
    }
    children.push(...inner);
  }
  return { ...sketch, children };
}

/** Nodes that must have a row, by walking the tree as a person would. */
function unfolded(hierarchy: Hierarchy, side: Side): number[] {
  const graph = hierarchy.graphs[side]!;
  const nodes: number[] = [];
  const visit = (node: number) => {
    nodes.push(node);
    if (!hierarchy.expansion.isOpen(side, node)) return;
    for (const child of graph.children(node)) {
      const isFiltered = node === 0 && hierarchy.microStep >= 0;
      if (!isFiltered || graph.microStep[child] === hierarchy.microStep) visit(child);
    }
  };
  visit(0);
  return nodes;
}

describe('rows', () => {
  test('hold every unfolded node once, in execution order', () => {
    forSeeds(150, (random) => {
      const hierarchy = randomHierarchy(random);
      for (const side of SIDES) {
        const placed = [...hierarchy.rows.node[side]].filter((node) => node >= 0);
        expect(placed).toEqual(unfolded(hierarchy, side));
        for (const node of placed) {
          const row = hierarchy.rows.rowOf[side][node]!;
          expect(hierarchy.rows.node[side][row]).toBe(node);
        }
        const hidden = hierarchy.rows.rowOf[side].filter((row) => row < 0).length;
        expect(hidden).toBe(hierarchy.graphs[side]!.count - placed.length);
      }
    });
  });

  test('are no more than both sides have nodes, and none is empty', () => {
    forSeeds(60, (random) => {
      const { rows } = randomHierarchy(random);
      for (let row = 0; row < rows.count; row++) {
        expect(Math.max(rows.node[0][row]!, rows.node[1][row]!)).toBeGreaterThanOrEqual(0);
      }
    });
  });

  test('bring matched children of matched modules together unless their order crossed', () => {
    forSeeds(150, (random) => {
      const hierarchy = randomHierarchy(random);
      const { rows, beside, graphs } = hierarchy;
      for (let row = 0; row < rows.count; row++) {
        const [npu, bench] = [rows.node[0][row]!, rows.node[1][row]!];
        if (npu < 0 || bench < 0) continue;
        expect(beside[0][npu]).toBe(bench);
        if (!hierarchy.expansion.isOpen(Side.NPU, npu)) continue;
        if (!hierarchy.expansion.isOpen(Side.BENCH, bench)) continue;
        const pairs = [...graphs[0].children(npu)]
          .map((child) => [child, beside[0][child]!] as const)
          .filter(
            ([child, other]) => rows.rowOf[0][child]! >= 0 && isChild(graphs[1]!, other, bench),
          )
          .filter(([, other]) => rows.rowOf[1][other]! >= 0);
        const together = pairs.filter(
          ([child, other]) => rows.rowOf[0][child] === rows.rowOf[1][other],
        );
        expect(together.length).toBe(longestByTrying(pairs.map(([, other]) => other)));
      }
    });
  });

  test('close a unit below the last that they hold, or below themselves', () => {
    forSeeds(100, (random) => {
      const { rows } = randomHierarchy(random);
      const closed = Array.from(rows.top, (top) => top + UNITS_PER_ROW);
      for (let row = rows.count - 1; row > 0; row--) {
        const parent = rows.parent[row]!;
        closed[parent] = Math.max(closed[parent]!, closed[row]! + 1);
      }
      // The root is open also where nothing of it is shown.
      const rest = closed.slice(1);
      expect(rest.map((_, at) => bottomOf(rows, at + 1))).toEqual(rest);
      if (rows.count > 1) expect(bottomOf(rows, 0)).toBe(closed[0]);
    });
  });

  test('nest: a block holds its children and nothing else', () => {
    forSeeds(100, (random) => {
      const hierarchy = randomHierarchy(random);
      const { rows } = hierarchy;
      expect(rows.end[0]).toBe(rows.count);
      expect(bottomOf(rows, 0)).toBe(rows.height);
      for (let row = 1; row < rows.count; row++) {
        const parent = rows.parent[row]!;
        expect(parent).toBeLessThan(row);
        expect(rows.depth[row]).toBe(rows.depth[parent]! + 1);
        expect(rows.end[row]).toBeLessThanOrEqual(rows.end[parent]!);
        expect(bottomOf(rows, row)).toBeLessThan(bottomOf(rows, parent));
        expect(rows.top[row]).toBeGreaterThanOrEqual(rows.top[row - 1]! + UNITS_PER_ROW);
        for (const side of SIDES) {
          const node = rows.node[side][row]!;
          if (node < 0) continue;
          const above = hierarchy.graphs[side]!.parent[node]!;
          let around = parent;
          while (rows.node[side][around]! < 0) {
            expect(rows.through[around]).toBe(1);
            around = rows.parent[around]!;
          }
          expect(rows.node[side][around]).toBe(above);
          if (rows.through[row] === 1) expect(hierarchy.beside[side][node]).toBe(-1);
        }
      }
    });
  });

  test('see through modules that one side alone has in between', () => {
    forSeeds(150, (random) => {
      const tree = randomTree(random, 40);
      // What both sides wrap in their own way nests only where each wraps a single node.
      const pair = random.chance(0.5)
        ? [wrapped(random, tree, 1), wrapped(random, tree, 1)]
        : [wrapped(random, tree, 4), tree];
      if (random.chance(0.5)) pair.reverse();
      const hierarchy = new Hierarchy(graphPair(pair[0]!, pair[1]!));
      hierarchy.expansion.expandAll();
      hierarchy.relayout();
      const { rows, beside } = hierarchy;
      const [npu] = hierarchy.graphs;
      for (let node = 0; node < npu.count; node++) {
        const partner = npu.partner[node]!;
        if (partner < 0) continue;
        expect(rows.rowOf[0][node]).toBe(rows.rowOf[1][partner]);
      }
      for (let row = 0; row < rows.count; row++) {
        const [node, other] = [rows.node[0][row]!, rows.node[1][row]!];
        if (rows.through[row] === 1) expect(Math.min(node, other)).toBe(-1);
        if (node >= 0 && other >= 0) expect(beside[0][node]).toBe(other);
      }
    });
  });

  test('are found by height', () => {
    forSeeds(20, (random) => {
      const { rows } = randomHierarchy(random);
      for (let unit = -3; unit < rows.height + 3; unit++) {
        let expected = 0;
        while (expected + 1 < rows.count && rows.top[expected + 1]! <= unit) expected++;
        expect(rowAt(rows, unit)).toBe(expected);
      }
    });
  });
});

test('one graph alone has a row per unfolded node and no gaps', () => {
  forSeeds(20, (random) => {
    const hierarchy = new Hierarchy([singleGraph(randomTree(random, 50)), null]);
    hierarchy.expansion.expandAll();
    hierarchy.relayout();
    const nodes = Array.from({ length: hierarchy.graphs[0].count }, (_, node) => node);
    expect([...hierarchy.rows.node[0]]).toEqual(nodes);
    expect(hierarchy.rows.node[1].every((node) => node === -1)).toBe(true);
  });
});

describe('side by side', () => {
  const api = (name: string, key: string | null): Sketch => ({
    ...{ stem: `Torch.${name}`, kind: Kind.API, direction: Direction.FORWARD },
    ...(key === null ? {} : { key }),
  });
  const model = (...children: Sketch[]): Sketch => ({
    stem: 'DefaultModel',
    key: 'root',
    children,
  });
  const rowsOf = (npu: Sketch, bench: Sketch): (string | null)[][] => {
    const hierarchy = new Hierarchy(graphPair(npu, bench));
    hierarchy.expansion.expandAll();
    hierarchy.relayout();
    const { rows, graphs } = hierarchy;
    const name = (graph: Graph | null, node: number) =>
      node < 0 ? null : graph!.label(node).title;
    return Array.from({ length: rows.count }, (_, row) => [
      name(graphs[0], rows.node[0][row]!),
      name(graphs[1], rows.node[1][row]!),
    ]);
  };

  test('a missing node leaves a gap at its height', () => {
    const [a, b, c] = [api('a', 'a'), api('b', 'b'), api('c', 'c')];
    expect(rowsOf(model(a, b, c), model(a, c))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['a', 'a'],
      ['b', null],
      ['c', 'c'],
    ]);
  });

  test('a node executed earlier on the other side gets rows of its own', () => {
    const [a, b, c] = [api('a', 'a'), api('b', 'b'), api('c', 'c')];
    expect(rowsOf(model(a, b, c), model(c, a, b))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      [null, 'c'],
      ['a', 'a'],
      ['b', 'b'],
      ['c', null],
    ]);
  });

  test('the same call that could not be matched stands at the same height', () => {
    const [a, b] = [api('a', 'a'), api('b', null)];
    expect(rowsOf(model(b, a), model(b, a))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['b', 'b'],
      ['a', 'a'],
    ]);
  });

  test('a renamed module stands beside the one with the partners of its children', () => {
    const renamed = (name: string): Sketch => ({
      ...{ stem: `Module.${name}.Block`, direction: Direction.FORWARD, call: 0 },
      children: [api('a', 'a')],
    });
    expect(rowsOf(model(renamed('old')), model(renamed('new')))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['old', 'new'],
      ['a', 'a'],
    ]);
  });

  const module = (name: string, key: string | null, ...children: Sketch[]): Sketch => ({
    ...{ stem: `Module.${name}.Block`, direction: Direction.FORWARD, call: 0, children },
    ...(key === null ? {} : { key }),
  });

  test('a module whose counterpart is elsewhere wraps nothing', () => {
    const [a, c, d, z] = ['a', 'c', 'd', 'z'].map((name) => api(name, name));
    const [npu, bench] = [
      model(module('m', 'm', a!), c!, d!),
      model(a!, c!, d!, module('m', 'm', z!)),
    ];
    expect(rowsOf(npu, bench)).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['m', null],
      ['a', null],
      [null, 'a'],
      ['c', 'c'],
      ['d', 'd'],
      [null, 'm'],
      [null, 'z'],
    ]);
  });

  test('what either side alone has before a wrapper stands before it, the debug side first', () => {
    const [x, y, p] = [api('x', 'x'), api('y', 'y'), api('p', 'p')];
    const wrapped = module('w', null, p);
    expect(rowsOf(model(x, p), model(y, wrapped))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['x', null],
      [null, 'y'],
      [null, 'w'],
      ['p', 'p'],
    ]);
    expect(rowsOf(model(x, wrapped), model(y, p))).toEqual([
      ['DefaultModel', 'DefaultModel'],
      ['x', null],
      [null, 'y'],
      ['w', null],
      ['p', 'p'],
    ]);
  });

  test.each([1, 2, 3, 4, 5])('%i modules in between are seen through up to four', (count) => {
    let wrapped = api('p', 'p');
    for (let at = 0; at < count; at++) wrapped = module(`w${at}`, null, wrapped);
    const rows = rowsOf(model(wrapped), model(api('p', 'p')));
    expect(rows.filter(([npu, bench]) => npu === 'p' && bench === 'p').length).toBe(
      count <= 4 ? 1 : 0,
    );
  });

  test('what is unfolded on one side only stands opposite gaps', () => {
    const block: Sketch = {
      ...{ stem: 'Module.x.Block', direction: Direction.FORWARD, call: 0, key: 'x' },
      children: [api('a', 'a')],
    };
    const hierarchy = new Hierarchy(graphPair(model(block), model(block)));
    hierarchy.expansion.sync = false;
    hierarchy.expansion.set(Side.BENCH, 1, true);
    hierarchy.relayout();
    expect([...hierarchy.rows.node[0]]).toEqual([0, 1, -1]);
    expect([...hierarchy.rows.node[1]]).toEqual([0, 1, 2]);
  });
});

test('sides that disagree about a match are refused', () => {
  const [npu, bench] = graphPair(
    { stem: 'DefaultModel', key: 'root', children: [{ stem: 'a', key: 'a' }] },
    { stem: 'DefaultModel', key: 'root', children: [{ stem: 'a', key: 'a' }] },
  );
  bench.partner[1] = 0;
  expect(() => new Hierarchy([npu, bench])).toThrow('the two sides match differently');
});

function isChild(graph: Graph, node: number, parent: number): boolean {
  return node >= 0 && graph.parent[node] === parent;
}

/** Length of the longest increasing subsequence, by the textbook's quadratic way. */
function longestByTrying(values: number[]): number {
  const best = values.map(() => 1);
  for (let at = 0; at < values.length; at++) {
    for (let before = 0; before < at; before++) {
      if (values[before]! < values[at]!) best[at] = Math.max(best[at]!, best[before]! + 1);
    }
  }
  return Math.max(0, ...best);
}
