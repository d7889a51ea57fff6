import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { boundsOf, slicesOf } from '../../src/data/slices';
import {
  ComparisonSchema,
  ParameterRowSchema,
  ParameterSchema,
} from '../../src/generated/graph_pb';

const HELD = Uint8Array.from({ length: 32 }, (_, place) => (place === 3 || place === 31 ? 255 : 0));

function slices(shape: string, held = HELD, dtype = 'torch.float32') {
  return slicesOf(
    create(ParameterRowSchema, {
      npu: create(ParameterSchema, { shape, dtype }),
      comparison: create(ComparisonSchema, { slices: held }),
    }),
  );
}

describe('slicesOf', () => {
  // As msprobe_builder/sketch/definition.py lays tensors out.
  it.each([
    ['[512, 64]', 32, 16, 4, 16],
    ['[2, 4, 16, 8]', 8, 16, 1, 8],
    ['[100]', 1, 1, 7, 15],
    ['[]', 1, 1, 1, 1],
    ['[20000, 3]', 1280, 16, 1, 3],
    ['[1025, 1024]', 128, 9, 64, 16],
  ])('lays %s out', (shape, row, rows, column, columns) => {
    const found = slices(shape);
    expect([found?.rows.slice, found?.rows.shares.length]).toEqual([row, rows]);
    expect([found?.columns.slice, found?.columns.shares.length]).toEqual([column, columns]);
  });

  it('counts a complex number as two', () => {
    expect(slices('[4, 8]', HELD, 'torch.complex64')?.columns.length).toBe(16);
  });

  it('reads the shares and the last slice, which may be short', () => {
    const found = slices('[500, 64]')!;
    expect(found.rows.shares[3]).toBe(1);
    expect(found.columns.shares[15]).toBe(1);
    expect(boundsOf(found.rows, 3)).toEqual([96, 127]);
    expect(boundsOf(found.rows, 15)).toEqual([480, 499]);
  });

  it.each([
    ['nothing', new Uint8Array()],
    ['too few', new Uint8Array(31)],
  ])('knows nothing of %s', (_, held) => {
    expect(slices('[512, 64]', held)).toBeUndefined();
  });

  it('knows nothing of tensors without elements', () => {
    expect(slices('[0, 4]')).toBeUndefined();
  });
});
