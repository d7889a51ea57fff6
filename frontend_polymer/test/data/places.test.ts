import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { measuresOf, placeTable, valueAt, worstRanks } from '../../src/data/places';
import { NodeAcrossSchema } from '../../src/generated/graph_pb';

// Ranks 0 … 3 in steps 5 and 7; rank 3 has no step 7.
const ACROSS = create(NodeAcrossSchema, {
  step: [5, 5, 5, 5, 7, 7, 7],
  rank: [0, 1, 2, 3, 0, 1, 2],
  index: [4, 4, 4, 4, 4, 4, 4],
  error: [0, 0.5, NaN, -1, 0.1, 0.2, -1],
  normRelativeErr: [-1, -1, -1, -1, -1, -1, 3],
  maxRelativeErr: [-1, -1, -1, -1, -1, -1, -1],
});

describe('a node in all steps and ranks', () => {
  it('is a table whose longer direction lies across', () => {
    const table = placeTable(ACROSS, [0, 1, 2, 3]);
    expect(table.rows).toBe('step');
    expect(table.rowKeys).toEqual([5, 7]);
    expect(table.columnKeys).toEqual([0, 1, 2, 3]);
    expect(table.at).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, -1],
    ]);
    expect(placeTable(ACROSS, [1])).toMatchObject({ rows: 'rank', at: [[1, 5]] });
  });

  it('names the ranks with the largest errors, not a number before all others', () => {
    expect(worstRanks(ACROSS, 2)).toEqual([1, 2]);
    expect(worstRanks(ACROSS, 1)).toEqual([2]);
    expect(worstRanks(ACROSS, Infinity)).toEqual([0, 1, 2, 3]);
  });

  it('offers what was measured anywhere', () => {
    expect(measuresOf(ACROSS)).toEqual(['error', 'norm']);
    expect(valueAt(ACROSS, 3, 'error')).toBeUndefined();
    expect(valueAt(ACROSS, 2, 'error')).toBeNaN();
    expect(valueAt(ACROSS, 6, 'norm')).toBe(3);
  });
});
