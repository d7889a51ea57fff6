import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { tensorColumns } from '../../../src/elements/details/tensor-columns';
import { gradeOf } from '../../../src/data/grades';
import {
  ComparisonSchema,
  Grade,
  GradeBandSchema,
  ParameterRowSchema,
  ParameterSchema,
  type ParameterRow,
} from '../../../src/generated/graph_pb';
import { en } from '../../../src/i18n/en';

const BANDS = [
  create(GradeBandSchema, { grade: Grade.UNGRADED }),
  create(GradeBandSchema, { grade: Grade.OK, low: 0, high: 0.2 }),
  create(GradeBandSchema, { grade: Grade.SLIGHT, low: 0.2, high: 0.4 }),
  create(GradeBandSchema, { grade: Grade.SEVERE, low: 0.4, high: 1 }),
  create(GradeBandSchema, { grade: Grade.UNMATCHED }),
];

const TENSOR = { name: 'output.0', type: 'torch.Tensor', dtype: 'torch.float32', shape: '[2, 4]' };

function pair(): ParameterRow {
  return create(ParameterRowSchema, {
    npu: create(ParameterSchema, { ...TENSOR, max: NaN, min: -Infinity, mean: 0.25, norm: 4 }),
    bench: create(ParameterSchema, { ...TENSOR, shape: '[2, 5]', max: 2, min: -1, mean: 0.2 }),
    comparison: create(ComparisonSchema, { maxDiff: NaN, meanRelativeErr: 0.25, error: 1 }),
  });
}

/** The texts of one row by group and label. */
function cells(row: ParameterRow) {
  const columns = tensorColumns([row], BANDS, en);
  return Object.fromEntries(
    columns.map((column) => [`${column.group} ${column.label}`, column.cell(row)]),
  );
}

describe('gradeOf', () => {
  it.each([
    [0, Grade.OK],
    [0.19999, Grade.OK],
    [0.2, Grade.SLIGHT],
    [-0.3, Grade.SLIGHT],
    [0.4, Grade.SEVERE],
    [1, Grade.SEVERE],
    [17, Grade.SEVERE],
    [NaN, Grade.SEVERE],
    [-Infinity, Grade.SEVERE],
  ])('puts %d into grade %d', (fraction, grade) => {
    expect(gradeOf(fraction, BANDS)).toBe(grade);
  });

  it('grades nothing without bands', () => {
    expect(gradeOf(0.5, [])).toBe(Grade.UNGRADED);
  });
});

describe('tensorColumns', () => {
  it('shows what is not a number as what it is', () => {
    const row = cells(pair());
    expect(row['npu Max']).toMatchObject({ text: 'NaN', tone: 'notfinite' });
    expect(row['npu Min']).toMatchObject({ text: '-Infinity', tone: 'notfinite' });
    expect(row['difference Max diff']).toMatchObject({ text: 'NaN', tone: 'notfinite' });
  });

  it('marks where the sides differ', () => {
    const row = cells(pair());
    expect(row['shared Shape']).toMatchObject({ text: '[2, 4] ≠ [2, 5]', tone: 'differs' });
    expect(row['shared Dtype']).toMatchObject({ text: 'torch.float32', tone: 'plain' });
  });

  it.each([
    ['Float32', 'torch.float32', 'plain'],
    ['BFloat16', 'torch.bfloat16', 'plain'],
    ['Float32', 'torch.bfloat16', 'differs'],
    ['torch.float16', 'torch.float32', 'differs'],
  ])('%s beside %s is %s', (npu, bench, tone) => {
    const row = pair();
    row.npu!.dtype = npu;
    row.bench!.dtype = bench;
    expect(cells(row)['shared Dtype']!.tone).toBe(tone);
  });

  it('grades relative errors and the contribution, in percent and as they are', () => {
    const row = cells(pair());
    expect(row['comparison Mean rel.']).toMatchObject({ text: '25 %', grade: Grade.SLIGHT });
    expect(row['comparison Contribution']).toMatchObject({ text: '1', grade: Grade.SEVERE });
  });

  it('colours nothing of memory that nobody has written to', () => {
    const row = pair();
    row.comparison!.note = '[{"code":"pair.unwritten"}]';
    const shown = cells(row);
    expect(shown['comparison Mean rel.']).toMatchObject({ text: '25 %', grade: Grade.UNGRADED });
    expect(shown['comparison Contribution']!.grade).toBe(Grade.UNGRADED);
  });

  it('leaves out columns without content, keeps those that some row needs', () => {
    expect(cells(pair())).not.toHaveProperty('bench Norm');
    expect(cells(pair())).not.toHaveProperty('comparison Cosine');
    const alone = create(ParameterRowSchema, {
      npu: create(ParameterSchema, { ...TENSOR, max: 1 }),
    });
    const columns = tensorColumns([alone], BANDS, en);
    expect(new Set(columns.map((column) => column.group))).toEqual(new Set(['shared', 'npu']));
  });
});
