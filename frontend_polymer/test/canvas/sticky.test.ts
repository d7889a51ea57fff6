import { describe, expect, test } from 'vitest';
import { contentWidth, geometryOf, Placer } from '../../src/canvas/geometry';
import { hitAt } from '../../src/canvas/hit';
import { stickyRows } from '../../src/canvas/sticky';
import { Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { forSeeds, randomTree, type Random } from '../graphs/random';
import { singleGraph, type Sketch } from '../graphs/synthetic';

const HEIGHT = 400;

function scrolled(random: Random, rowHeight = 24): { hierarchy: Hierarchy; placer: Placer } {
  const hierarchy = new Hierarchy([singleGraph(randomTree(random, 150)), null]);
  hierarchy.expansion.expandAll();
  hierarchy.relayout();
  const { rows, graphs } = hierarchy;
  const width = contentWidth(rowHeight, 600, graphs[0].deepest);
  const view = { rowHeight, top: random.next() * rows.height, left: 0 };
  return { hierarchy, placer: new Placer(rows, view, geometryOf(rowHeight), width, 1) };
}

describe('modules that stick to the upper edge', () => {
  test('are one inside the other, from below the root on', () => {
    forSeeds(200, (random) => {
      const { hierarchy, placer } = scrolled(random);
      const { rows } = hierarchy;
      stickyRows(rows, placer, HEIGHT).forEach(({ row }, place, all) => {
        expect(rows.depth[row]).toBe(place + 1);
        expect(rows.parent[row]).toBe(place === 0 ? 0 : all[place - 1]!.row);
      });
    });
  });

  test('have their own row above, and rows of their block below', () => {
    let seen = 0;
    forSeeds(200, (random) => {
      const { hierarchy, placer } = scrolled(random);
      for (const { row, box } of stickyRows(hierarchy.rows, placer, HEIGHT)) {
        seen++;
        expect(placer.row(row).y).toBeLessThan(box.y + 1);
        const block = placer.block(row);
        expect(block.y + block.height).toBeGreaterThanOrEqual(box.y + box.height - 1);
      }
    });
    expect(seen).toBeGreaterThan(100);
  });

  test('begin in sight however far the view is scrolled sideways', () => {
    let deepest: Sketch = { stem: 'Tensor.add' };
    for (let level = 0; level < 200; level++) {
      deepest = { stem: `Module.${'a.'.repeat(200 - level)}Net`, children: [deepest] };
    }
    const hierarchy = new Hierarchy([singleGraph(deepest), null]);
    hierarchy.expansion.expandAll();
    hierarchy.relayout();
    const width = contentWidth(24, 600, hierarchy.deepest);
    const view = { rowHeight: 24, top: hierarchy.rows.height / 2, left: width - 600 };
    const placer = new Placer(hierarchy.rows, view, geometryOf(24), width, 1);
    const stuck = stickyRows(hierarchy.rows, placer, HEIGHT);
    expect(stuck).toHaveLength(4);
    for (const { box } of stuck) {
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeGreaterThan(240);
    }
  });

  test('leave most of the pane free, and give way in an overview', () => {
    forSeeds(50, (random) => {
      const { hierarchy, placer } = scrolled(random, 40);
      expect(stickyRows(hierarchy.rows, placer, 200).length).toBeLessThanOrEqual(1);
    });
    forSeeds(50, (random) => {
      const { hierarchy, placer } = scrolled(random, 8);
      expect(stickyRows(hierarchy.rows, placer, HEIGHT)).toEqual([]);
    });
  });

  test('are what a click on them hits', () => {
    forSeeds(100, (random) => {
      const { hierarchy, placer } = scrolled(random);
      let covered = 0;
      for (const { row, box } of stickyRows(hierarchy.rows, placer, HEIGHT)) {
        const y = box.y + box.height - 2;
        if (y < covered) continue; // pushed out behind the one above
        covered = box.y + box.height;
        const hit = hitAt(hierarchy, Side.NPU, placer, box.x + 8, y, HEIGHT);
        expect(hit).toEqual({
          node: { side: Side.NPU, index: hierarchy.rows.node[0][row] },
          onChevron: true,
        });
      }
    });
  });
});
