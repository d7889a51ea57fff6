import { describe, expect, test } from 'vitest';
import { narrowed } from '../../src/data/narrow';

describe('numbers in as little room as they need', () => {
  test.each([
    [[], 1],
    [[0, 255], 1],
    [[-128, 127], 1],
    [[-129], 2],
    [[-1, 255], 2],
    [[0, 256], 2],
    [[-32_768, 32_767], 2],
    [[0, 65_535], 2],
    [[0, 65_536], 4],
    [[-1, 32_768], 4],
    [[-32_769], 4],
    [[-2_147_483_648, 2_147_483_647], 4],
  ])('%j stay the same, at %i bytes each', (values, bytes) => {
    const array = narrowed(Int32Array.from(values));
    expect([...array]).toEqual(values);
    expect(array.BYTES_PER_ELEMENT).toBe(bytes);
  });
});
