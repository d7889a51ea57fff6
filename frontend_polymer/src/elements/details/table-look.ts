// How the table of tensors is looked at: which columns, how many digits, in which order.

import type { ParameterRow } from '../../generated/graph_pb';
import { readSetting, writeSetting } from '../../data/settings';
import type { Column, Value } from './tensor-columns';

export interface Sort {
  /** Of a column; `name` is that of the parameters. */
  readonly key: string;
  readonly descending: boolean;
}

export interface TableLook {
  /** Keys of columns. */
  readonly hidden: readonly string[];
  readonly exact: boolean;
  /** Order of execution when there is none. */
  readonly sort: Sort | null;
  /** Whether the making of every merged value is shown. */
  readonly recipes: boolean;
}

const HIDDEN = 'table.hidden';
const EXACT = 'table.exact';

/** As it was left last time; a sorted table would surprise. */
export function storedLook(): TableLook {
  const hidden = (readSetting(HIDDEN) ?? '').split(',').filter((key) => key !== '');
  return { hidden, exact: readSetting(EXACT) === '1', sort: null, recipes: false };
}

export function rememberLook({ hidden, exact }: TableLook): void {
  writeSetting(HIDDEN, hidden.join(','));
  writeSetting(EXACT, exact ? '1' : '');
}

/** The sorting after a click on a header: largest first, smallest first, order of execution. */
export function nextSort(sort: Sort | null, key: string): Sort | null {
  if (sort?.key !== key) return { key, descending: true };
  return sort.descending ? { key, descending: false } : null;
}

/** The rows in the order asked for; what has no value comes last, what is not a number is largest. */
export function sorted(
  rows: readonly ParameterRow[],
  columns: readonly Column[],
  sort: Sort | null,
): readonly ParameterRow[] {
  if (!sort) return rows;
  const value =
    sort.key === 'name'
      ? nameOf
      : columns.find((column) => column.key === sort.key)?.value.bind(undefined);
  if (!value) return rows;
  const sign = sort.descending ? -1 : 1;
  return rows
    .map((row) => [row, value(row)] as const)
    .sort(([, one], [, other]) => {
      if (one === undefined || other === undefined) {
        return Number(one === undefined) - Number(other === undefined);
      }
      return sign * compare(one, other);
    })
    .map(([row]) => row);
}

export function nameOf({ npu, bench }: ParameterRow): string {
  const names = [npu?.name, bench?.name].filter((name) => name !== undefined);
  return [...new Set(names)].join(' / ');
}

function compare(one: NonNullable<Value>, other: NonNullable<Value>): number {
  if (typeof one === 'string' && typeof other === 'string') {
    return one.localeCompare(other, 'en', { numeric: true });
  }
  const [a, b] = [Number(one), Number(other)];
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a < b ? -1 : Number(a > b);
}
