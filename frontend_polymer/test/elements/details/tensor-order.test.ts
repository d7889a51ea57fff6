import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { toCsv, toTsv } from '../../../src/data/delimited';
import { nextSort, sorted } from '../../../src/elements/details/table-look';
import { tensorColumns } from '../../../src/elements/details/tensor-columns';
import { fileRows, shownRows } from '../../../src/elements/details/tensor-export';
import {
  ComparisonSchema,
  NodeDetailSchema,
  NodeRecordSchema,
  ParameterRowSchema,
  ParameterSchema,
  Section,
  type ParameterRow,
} from '../../../src/generated/graph_pb';
import { en } from '../../../src/i18n/en';

function row(name: string, max: number | undefined, error?: number): ParameterRow {
  const side = { name, section: Section.OUTPUT, dtype: 'torch.float32', shape: '[2]' };
  return create(ParameterRowSchema, {
    npu: create(ParameterSchema, { ...side, ...(max === undefined ? {} : { max }) }),
    bench: create(ParameterSchema, side),
    comparison: create(ComparisonSchema, error === undefined ? {} : { error }),
  });
}

const ROWS = [
  row('output.10', 2, 0.5),
  row('output.2', undefined),
  row('output.1', NaN, 0.25),
  row('output.0', -Infinity, 0),
];
const COLUMNS = tensorColumns(ROWS, [], en);

function names(rows: readonly ParameterRow[]) {
  return rows.map(({ npu }) => npu?.name.slice('output.'.length));
}

describe('sorting', () => {
  it('takes what is not a number for the largest, and puts what is missing last', () => {
    const sort = { key: 'npu_max', descending: true };
    expect(names(sorted(ROWS, COLUMNS, sort))).toEqual(['1', '10', '0', '2']);
    expect(names(sorted(ROWS, COLUMNS, { ...sort, descending: false }))).toEqual([
      ...['0', '10', '1', '2'],
    ]);
  });

  it('reads numbers in names as numbers', () => {
    expect(names(sorted(ROWS, COLUMNS, { key: 'name', descending: false }))).toEqual([
      ...['0', '1', '2', '10'],
    ]);
  });

  it('leaves the order of execution without a column, or with one that is not there', () => {
    expect(sorted(ROWS, COLUMNS, null)).toBe(ROWS);
    expect(sorted(ROWS, COLUMNS, { key: 'cosine', descending: true })).toBe(ROWS);
  });

  it('comes back to the order of execution with the third click', () => {
    const first = nextSort(null, 'error');
    const second = nextSort(first, 'error');
    expect([first?.descending, second?.descending]).toEqual([true, false]);
    expect(nextSort(second, 'error')).toBeNull();
    expect(nextSort(second, 'name')).toEqual({ key: 'name', descending: true });
  });
});

describe('delimited text', () => {
  it('quotes what would break a row, and keeps every digit', () => {
    expect(toCsv([['a,b', 'say "no"', 'two\nlines', 0.1 + 0.2, NaN, undefined, true]])).toBe(
      '"a,b","say ""no""","two\nlines",0.30000000000000004,NaN,,true\r\n',
    );
    expect(toTsv([['a,b', 'tab\there', -1e-300]])).toBe('a,b\t"tab\there"\t-1e-300\n');
  });

  it('leaves nothing for a spreadsheet to run', () => {
    expect(toCsv([['=1+1', '@x', '-cmd', '-1.5e-3', '+2', '[-1]', -7]])).toBe(
      "'=1+1,'@x,'-cmd,-1.5e-3,+2,[-1],-7\r\n",
    );
  });
});

describe('the table as a file', () => {
  it('has what is shown, with names for programs', () => {
    const [head, first] = shownRows(ROWS.slice(0, 1), COLUMNS);
    expect(head).toEqual(['parameter', 'error', 'npu_max', 'dtype', 'shape']);
    expect(first).toEqual(['output.10', 0.5, 2, 'torch.float32', '[2]']);
  });

  it('has all of both sides, one row per parameter, as wide as its head', () => {
    const oneSide = create(ParameterRowSchema, {
      bench: create(ParameterSchema, { name: 'input.0', section: Section.INPUT, value: 'None' }),
    });
    const detail = create(NodeDetailSchema, {
      npu: create(NodeRecordSchema, { name: 'Torch.add.0.forward' }),
      rows: [...ROWS, oneSide],
    });
    const rows = fileRows(detail, { step: 3, rank: 1 }, COLUMNS, en.verdict.tell);
    const head = rows[0]!;
    expect(rows.map((fields) => fields.length)).toEqual(rows.map(() => head.length));
    expect(new Set(head).size).toBe(head.length);
    const field = (at: number, name: string) => rows[at]![head.indexOf(name)];
    expect(field(1, 'npu_node')).toBe('Torch.add.0.forward');
    expect([field(1, 'step'), field(1, 'rank'), field(1, 'section')]).toEqual([3, 1, 'output']);
    expect([field(1, 'npu_max'), field(1, 'error')]).toEqual([2, 0.5]);
    expect([field(5, 'npu_name'), field(5, 'bench_name'), field(5, 'bench_value')]).toEqual([
      ...[undefined, 'input.0', 'None'],
    ]);
  });
});
