import { describe, expect, test } from 'vitest';
import { shares } from '../../src/canvas/content';
import { contentWidth, geometryOf, Placer } from '../../src/canvas/geometry';
import { hitAt } from '../../src/canvas/hit';
import { placeAt, Sequence } from '../../src/canvas/minimap';
import { GAP, Pyramid } from '../../src/canvas/pyramid';
import { callTexts } from '../../src/canvas/text';
import { colouringOf, errorText } from '../../src/data/colouring';
import { TONES, TONE_SEVERITY, Tones } from '../../src/canvas/tone';
import { yOf } from '../../src/canvas/viewport';
import { Direction, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { bottomOf } from '../../src/layout/rows';
import { SIDES } from '../../src/layout/sides';
import { stepFrom } from '../../src/layout/walk';
import { forSeeds, randomPair, randomTree, type Random } from '../graphs/random';
import { graphPair, singleGraph } from '../graphs/synthetic';

function randomHierarchy(random: Random): Hierarchy {
  const hierarchy = new Hierarchy(graphPair(...randomPair(random, 80)));
  hierarchy.expansion.sync = false;
  for (const side of SIDES) {
    const { count } = hierarchy.graphs[side]!;
    for (let node = 0; node < count; node++) {
      if (random.chance(0.6)) hierarchy.expansion.set(side, node, true);
    }
  }
  hierarchy.relayout();
  return hierarchy;
}

describe.each(['precision', 'overflow'] as const)('the worst of a run of rows, by %s', (mode) => {
  test('equals looking at each node in them, folded ones included', () => {
    forSeeds(30, (random) => {
      const hierarchy = randomHierarchy(random);
      const { rows, expansion, graphs } = hierarchy;
      for (const side of SIDES) {
        const graph = graphs[side]!;
        const tones = new Tones(
          graph,
          mode,
          colouringOf(graph, mode, { measures: null, bands: [] }, false),
        );
        const pyramid = new Pyramid(
          rows,
          side,
          hierarchy.trees[side]!,
          expansion.open[side],
          tones,
        );
        for (let round = 0; round < 20; round++) {
          const from = random.below(rows.count);
          const to = from + 1 + random.below(rows.count - from);
          let worst = GAP;
          for (let row = from; row < to; row++) {
            const node = rows.node[side][row]!;
            if (node < 0) continue;
            const end = expansion.isOpen(side, node) ? node + 1 : graph.end[node]!;
            for (let hidden = node; hidden < end; hidden++) {
              const tone = tones.of(hidden);
              if (worst === GAP || TONE_SEVERITY[tone]! > TONE_SEVERITY[worst]!) worst = tone;
            }
          }
          expect(pyramid.worst(from, to)).toBe(worst);
        }
      }
    });
  });

  test('the counts of a subtree add up to its size', () => {
    forSeeds(20, (random) => {
      const graph = singleGraph(randomTree(random, 60));
      const tones = new Tones(
        graph,
        mode,
        colouringOf(graph, mode, { measures: null, bands: [] }, false),
      );
      for (let node = 0; node < graph.count; node++) {
        const counts = tones.count(node, graph.end[node]!);
        expect(counts.reduce((a, b) => a + b)).toBe(graph.end[node]! - node);
      }
    });
  });
});

test('a bar is filled exactly and shows everything that is there', () => {
  forSeeds(100, (random) => {
    const counts = Array.from({ length: TONES }, () =>
      random.chance(0.5) ? random.below(10_000) : 0,
    );
    counts[0]!++;
    const parts = shares(counts, 72, 2);
    expect(parts.map(([, width]) => width).reduce((a, b) => a + b)).toBeCloseTo(72, 6);
    expect(parts.every(([, width]) => width >= 2)).toBe(true);
    const narrow = shares(counts, 6, 5);
    expect(narrow.map(([, width]) => width).reduce((a, b) => a + b)).toBeCloseTo(6, 6);
    expect(parts.map(([tone]) => tone).sort()).toEqual(
      counts.flatMap((count, tone) => (count > 0 ? [tone] : [])).sort(),
    );
  });
});

describe('a point of a pane', () => {
  const placerOf = (hierarchy: Hierarchy, rowHeight: number, side: Side) => {
    const width = contentWidth(rowHeight, 600, hierarchy.graphs[side]!.deepest);
    const view = { rowHeight, top: -1, left: 0 };
    return new Placer(hierarchy.rows, view, geometryOf(rowHeight), width, 1);
  };

  test('in the middle of a row is its node, or the module around a gap', () => {
    forSeeds(30, (random) => {
      const hierarchy = randomHierarchy(random);
      const { rows } = hierarchy;
      for (const side of SIDES) {
        const placer = placerOf(hierarchy, 24, side);
        for (let row = 0; row < rows.count; row++) {
          const box = placer.row(row);
          const hit = hitAt(
            hierarchy,
            side,
            placer,
            box.x + box.width / 2,
            box.y + box.height / 2,
            1e9,
          );
          const node = rows.node[side][row]!;
          if (node >= 0) expect(hit).toEqual({ node: { side, index: node }, onChevron: false });
          else {
            let above = rows.parent[row]!;
            while (rows.node[side][above]! < 0) above = rows.parent[above]!;
            const index = rows.node[side][above]!;
            const isAround = hierarchy.expansion.isOpen(side, index);
            expect(hit?.node.index).toBe(isAround ? index : enclosing(hierarchy, side, above));
          }
        }
      }
    });
  });

  test('where a box closes is the module that closes there', () => {
    forSeeds(30, (random) => {
      const hierarchy = randomHierarchy(random);
      const { rows, expansion } = hierarchy;
      const placer = placerOf(hierarchy, 24, Side.NPU);
      rows.node[0].forEach((index, row) => {
        if (index < 0 || !expansion.isOpen(Side.NPU, index)) return;
        const y = yOf(placer.view, bottomOf(rows, row) - 0.5);
        const hit = hitAt(hierarchy, Side.NPU, placer, placer.row(row).x + 50, y, 1e9);
        expect(hit).toEqual({ node: { side: Side.NPU, index }, onChevron: false });
      });
    });
  });

  test('at the left end of a module folds it, of a leaf does not', () => {
    forSeeds(10, (random) => {
      const hierarchy = randomHierarchy(random);
      const placer = placerOf(hierarchy, 24, Side.NPU);
      hierarchy.rows.node[0].forEach((node, row) => {
        if (node < 0) return;
        const box = placer.row(row);
        const hit = hitAt(hierarchy, Side.NPU, placer, box.x + 8, box.y + box.height / 2, 1e9);
        expect(hit?.onChevron).toBe(hierarchy.graphs[0].hasChildren(node));
      });
    });
  });

  test('above, below and beside everything is nothing', () => {
    forSeeds(5, (random) => {
      const hierarchy = randomHierarchy(random);
      const placer = placerOf(hierarchy, 24, Side.NPU);
      expect(hitAt(hierarchy, Side.NPU, placer, 100, 1, 1e9)).toBeNull();
      expect(hitAt(hierarchy, Side.NPU, placer, 100, 1e6, 1e9)).toBeNull();
      expect(hitAt(hierarchy, Side.NPU, placer, 1, 20, 1e9)).toBeNull();
    });
  });
});

/** The closest unfolded module around a row. */
function enclosing(hierarchy: Hierarchy, side: Side, row: number): number | undefined {
  const { rows, expansion } = hierarchy;
  for (let above = row; above >= 0; above = rows.parent[above]!) {
    const node = rows.node[side][above]!;
    if (node >= 0 && expansion.isOpen(side, node)) return node;
  }
  return undefined;
}

describe('the sequence of a minimap', () => {
  test('holds what the micro-step shows, in order, and finds it again', () => {
    forSeeds(40, (random) => {
      const graph = singleGraph(randomTree(random, 80));
      const microStep = random.below(4) - 1;
      const expected = [...graph.children(0)]
        .filter((child) => microStep < 0 || graph.microStep[child] === microStep)
        .flatMap((child) =>
          Array.from({ length: graph.end[child]! - child }, (_, at) => child + at),
        );
      const sequence = new Sequence(graph, microStep);
      expect(sequence.length).toBe(expected.length);
      expected.forEach((node, place) => {
        expect(sequence.node(place)).toBe(node);
        expect(sequence.place(node)).toBe(place);
      });
      if (expected.length > 0) {
        expect(placeAt(sequence, -5, 300)).toBe(0);
        expect(placeAt(sequence, 1e6, 300)).toBe(expected.length - 1);
      }
    });
  });
});

test('walking down visits every node of a side once, and up again', () => {
  forSeeds(20, (random) => {
    const hierarchy = randomHierarchy(random);
    for (const side of SIDES) {
      const all = [...hierarchy.rows.node[side]].filter((node) => node >= 0);
      let node = stepFrom(hierarchy, side, null, 1);
      const down = [node.index];
      for (let step = 1; step < all.length; step++) {
        node = stepFrom(hierarchy, side, node, 1);
        down.push(node.index);
      }
      expect(down).toEqual(all);
      expect(stepFrom(hierarchy, side, node, 1)).toEqual(node);
      for (let step = all.length - 2; step >= 0; step--) {
        node = stepFrom(hierarchy, side, node, -1);
        expect(node.index).toBe(all[step]);
      }
      expect(stepFrom(hierarchy, side, node, Infinity).index).toBe(all.at(-1));
      expect(stepFrom(hierarchy, side, node, -Infinity).index).toBe(0);
    }
  });
});

test('calls say their direction, shorter where there is little room', () => {
  const graph = singleGraph({
    stem: 'DefaultModel',
    children: [
      { stem: 'Module.a.A', direction: Direction.FORWARD, call: 2 },
      { stem: 'Module.a.A', direction: Direction.BACKWARD, call: 2 },
    ],
  });
  expect([0, 1, 2].map((node) => callTexts(graph, node))).toEqual([
    [],
    ['forward 2', '→ 2'],
    ['← backward 2', '← 2'],
  ]);
});

test.each([
  [-1, ''],
  [0, ''],
  [NaN, ''],
  [0.0001, '<0.001'],
  [0.25, '0.250'],
  [0.9999, '1'],
  [1, '1'],
])('an error of %f is written as "%s"', (error, text) => expect(errorText(error)).toBe(text));
