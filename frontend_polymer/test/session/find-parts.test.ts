import { describe, expect, it } from 'vitest';

import { NO_FIND, type Find } from '../../src/session/find';
import { findParts, isCombined } from '../../src/session/find-parts';
import { Grade, Overflow } from '../../src/generated/graph_pb';

const FULL: Find = {
  ...NO_FIND,
  text: 'mul',
  grades: [Grade.MODERATE, Grade.SEVERE],
  overflows: [Overflow.HIGH],
  reasons: ['no_candidate'],
  operator: 'softmax',
  dtype: 'float32',
  shape: '[2, 4]',
  scope: 'file',
};

describe('findParts', () => {
  it('takes everything away, one condition after the other, in any order', () => {
    for (const last of [true, false]) {
      let find = FULL;
      let parts = findParts(find);
      expect(parts).toHaveLength(9);
      while (parts.length > 0) {
        const left = parts.length - 1;
        find = { ...find, ...(last ? parts.at(-1)! : parts[0]!).without };
        parts = findParts(find);
        expect(parts).toHaveLength(left);
      }
      expect(find).toEqual(NO_FIND);
    }
  });

  it('leaves alone what the search field says by itself', () => {
    expect(isCombined(findParts({ ...NO_FIND, text: 'mul', scope: 'file' }))).toBe(false);
    expect(isCombined(findParts({ ...NO_FIND, dtype: 'float32' }))).toBe(true);
  });
});
