import { describe, expect, test } from 'vitest';
import { Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { SIDES } from '../../src/layout/sides';
import { stepFrom } from '../../src/layout/walk';
import { forSeeds, randomPair, type Random } from '../graphs/random';
import { graphPair } from '../graphs/synthetic';

function unified(random: Random): Hierarchy {
  const hierarchy = new Hierarchy(graphPair(...randomPair(random, 60)));
  hierarchy.expansion.sync = false;
  for (const side of SIDES) {
    for (let node = 0; node < hierarchy.graphs[side]!.count; node++) {
      if (random.chance(0.6)) hierarchy.expansion.set(side, node, true);
    }
  }
  hierarchy.isUnified = true;
  return hierarchy;
}

describe('both sides as one tree', () => {
  test('have a row for everything that either side shows, and no gaps', () => {
    forSeeds(30, (random) => {
      const hierarchy = unified(random);
      const { rows } = hierarchy;
      const drawn = SIDES.map((side) => hierarchy.drawnRows(side).node[side]);
      for (let row = 0; row < rows.count; row++) {
        const here = SIDES.filter((side) => drawn[side]![row]! >= 0);
        expect(here).toHaveLength(1);
        expect(hierarchy.nodeAt(Side.BENCH, row)).toEqual({
          side: here[0],
          index: drawn[here[0]!]![row],
        });
      }
      for (const side of SIDES) {
        for (let node = 0; node < hierarchy.graphs[side]!.count; node++) {
          const shown = hierarchy.shown({ side, index: node })!;
          const speaks = hierarchy.spokesman(shown);
          expect(hierarchy.rowOf(speaks)).toBe(hierarchy.rowOf(shown));
        }
      }
    });
  });

  test('let the debug side speak for what both have', () => {
    forSeeds(30, (random) => {
      const hierarchy = unified(random);
      const { node } = hierarchy.rows;
      for (const [row, npu] of node[Side.NPU].entries()) {
        const other = node[Side.BENCH][row]!;
        const speaker =
          npu < 0 ? { side: Side.BENCH, index: other } : { side: Side.NPU, index: npu };
        if (other >= 0) {
          expect(hierarchy.spokesman({ side: Side.BENCH, index: other })).toEqual(speaker);
        }
      }
      hierarchy.isUnified = false;
      const last = { side: Side.BENCH, index: Math.max(...node[Side.BENCH]) };
      expect(hierarchy.spokesman(last)).toEqual(last);
    });
  });

  test('are unfolded together', () => {
    forSeeds(30, (random) => {
      const { beside, expansion, trees } = unified(random);
      for (let node = 0; node < beside[0].length; node++) {
        const other = beside[0][node]!;
        if (other < 0 || !trees[0].hasChildren(node) || !trees[1]!.hasChildren(other)) continue;
        expect(expansion.isOpen(Side.NPU, node)).toBe(expansion.isOpen(Side.BENCH, other));
      }
    });
  });

  test('are walked row by row', () => {
    forSeeds(10, (random) => {
      const hierarchy = unified(random);
      let at = stepFrom(hierarchy, Side.BENCH, null, 1);
      for (let row = 0; row < hierarchy.rows.count; row++) {
        expect(at).toEqual(hierarchy.nodeAt(Side.NPU, row));
        at = stepFrom(hierarchy, at.side, at, 1);
      }
    });
  });
});
