import { ScalarType } from '@bufbuild/protobuf';
import {
  ComparisonSchema,
  Grade,
  type Comparison,
  type GradeBand,
  type Parameter,
  type ParameterRow,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { gradeOf } from '../../data/grades';
import { isUnknown } from '../../data/recipe';
import { factsOf } from '../../data/facts';
import { slicesOf, type Slices } from '../../data/slices';
import { formatExact, formatNumber, formatPercent } from '../parts/format';

/** What one cell of the tensor table shows. */
export interface Cell {
  readonly text: string;
  /** With every digit. */
  readonly exact: string;
  /** The full value, and what is remarkable about it. */
  readonly title: string;
  readonly tone: 'plain' | 'absent' | 'notfinite' | 'differs' | 'unknown';
  readonly grade: Grade;
  /** Where the tensors differ. */
  readonly picture?: Slices;
}

export type ColumnGroup = 'shared' | 'npu' | 'bench' | 'comparison' | 'difference';

export type Value = number | string | boolean | undefined;

export interface Column {
  /** Names the column in settings and in files. */
  readonly key: string;
  readonly group: ColumnGroup;
  readonly label: string;
  readonly hint: string;
  readonly numeric: boolean;
  cell(row: ParameterRow): Cell;
  /** What to sort by and to export: numbers as they are stored. */
  value(row: ParameterRow): Value;
}

const ABSENT: Cell = { text: '–', exact: '–', title: '', tone: 'absent', grade: Grade.UNGRADED };

const DISTANCE = 'relative_difference';

const STATISTICS = ['max', 'min', 'mean', 'norm'] as const;

interface Metric {
  readonly field: NumericField;
  readonly name: keyof Texts['metrics'];
  readonly style: 'number' | 'percent' | 'share';
  /** Has a unit. */
  readonly isDifference: boolean;
}

/**
 * The metrics of a comparison as the contract has them; how each is written follows from the end of
 * its name. What has a unit stands apart, behind the values themselves.
 */
const METRICS: readonly Metric[] = ComparisonSchema.fields
  .filter(({ scalar, name }) => scalar === ScalarType.DOUBLE && name !== 'error')
  .map(({ localName, name }) => ({
    field: localName as NumericField,
    name: name as keyof Texts['metrics'],
    style: styleOf(name),
    isDifference: name.endsWith('_diff'),
  }))
  .sort((one, other) => rank(one) - rank(other));

/** The distance of the tensors says most, what has a unit least. */
function rank({ name, isDifference }: Metric): number {
  if (name === DISTANCE) return 0;
  return isDifference ? 2 : 1;
}

function styleOf(name: string): Metric['style'] {
  if (name.endsWith('_relative_err') || name === DISTANCE) return 'percent';
  return name.endsWith('_ratio') || name.endsWith('_share') ? 'share' : 'number';
}

/**
 * The columns that hold anything in these rows, in the order of the table. The bands are
 * those of the error; `gradesErrors` tells whether they apply to each relative error as well.
 */
export function tensorColumns(
  rows: readonly ParameterRow[],
  bands: readonly GradeBand[],
  text: Texts,
  gradesErrors = true,
): Column[] {
  const errors = comparisonColumns(bands, text, gradesErrors);
  const columns = [
    ...errors.filter(({ group }) => group === 'comparison'),
    ...sideColumns('npu', text),
    ...sideColumns('bench', text),
    ...sharedColumns(text),
    ...errors.filter(({ group }) => group === 'difference'),
  ];
  return columns.filter((column) => rows.some((row) => column.cell(row).tone !== 'absent'));
}

/** What both sides normally agree on is said once; where they do not, both values stand there. */
function sharedColumns(text: Texts): Column[] {
  const column = (
    key: string,
    name: 'dtype' | 'shape' | 'requiresGrad',
    value: (parameter: Parameter | undefined) => string | undefined,
  ): Column => ({
    key,
    group: 'shared',
    label: text.tensors[name],
    hint: text.statisticHints[name],
    numeric: false,
    cell: (row) => sharedCell(value(row.npu), value(row.bench), text),
    value: (row) => {
      const [npu, bench] = [value(row.npu), value(row.bench)];
      return differ(npu, bench) ? `${npu} ≠ ${bench}` : (npu ?? bench);
    },
  });
  return [
    column('dtype', 'dtype', (parameter) =>
      parameter?.dtype === '' ? parameter.type : parameter?.dtype,
    ),
    column('shape', 'shape', (parameter) =>
      parameter && hidesShape(parameter) ? text.origin.unknown : parameter?.shape,
    ),
    column('requires_grad', 'requiresGrad', (parameter) => yesNo(parameter, text)),
  ];
}

function sideColumns(side: 'npu' | 'bench', text: Texts): Column[] {
  return [
    ...STATISTICS.map((name) => ({
      key: `${side}_${name}`,
      group: side,
      label: text.tensors[name],
      hint: text.statisticHints[name],
      numeric: true,
      cell: (row: ParameterRow) => {
        const cell = statisticCell(row[side], name, text);
        // The infinities of a mask are meant: no alarm where both sides have them.
        const isMeant = cell.tone === 'notfinite' && row.npu?.[name] === row.bench?.[name];
        return isMeant ? { ...cell, title: cell.exact, tone: 'plain' as const } : cell;
      },
      value: (row: ParameterRow) => row[side]?.[name],
    })),
    {
      key: `${side}_md5`,
      group: side,
      label: text.tensors.md5,
      hint: text.statisticHints.md5,
      numeric: false,
      cell: (row) => wordCell(row[side]?.md5),
      value: (row) => word(row[side]?.md5),
    },
  ];
}

function comparisonColumns(
  bands: readonly GradeBand[],
  text: Texts,
  gradesErrors: boolean,
): Column[] {
  const named = (name: keyof Texts['metrics'], numeric: boolean) => ({
    key: name,
    group: 'comparison' as const,
    label: text.metrics[name],
    hint: text.metricHints[name],
    numeric,
  });
  const equality = (field: 'md5Equal' | 'requiresGradEqual', name: keyof Texts['metrics']) => ({
    ...named(name, false),
    cell: (row: ParameterRow) => equalityCell(row.comparison?.[field], text),
    value: (row: ParameterRow) => row.comparison?.[field],
  });
  const noted = ({ comparison }: ParameterRow) =>
    comparison?.note && text.verdict.tell(comparison.note);
  return [
    {
      ...named('error', true),
      cell: (row) => graded(numberCell(row.comparison?.error, 'number', text), row, 'error', bands),
      value: (row) => row.comparison?.error,
    },
    ...METRICS.map(({ field, name, style, isDifference }) => ({
      ...named(name, true),
      group: isDifference ? ('difference' as const) : ('comparison' as const),
      cell: (row: ParameterRow) => {
        const plain = numberCell(row.comparison?.[field], style, text);
        const picture = name === DISTANCE ? slicesOf(row) : undefined;
        const cell = picture ? { ...plain, picture } : plain;
        return gradesErrors && style === 'percent' ? graded(cell, row, field, bands) : cell;
      },
      value: (row: ParameterRow) => row.comparison?.[field],
    })),
    equality('md5Equal', 'md5_equal'),
    equality('requiresGradEqual', 'requires_grad_equal'),
    {
      key: 'note',
      group: 'comparison',
      label: text.tensors.note,
      hint: text.tensors.note,
      numeric: false,
      cell: (row) => wordCell(noted(row)),
      value: (row) => word(noted(row)),
    },
  ];
}

type NumericField = {
  [K in keyof Comparison]-?: Comparison[K] extends number | undefined ? K : never;
}[keyof Comparison];

function graded(
  cell: Cell,
  row: ParameterRow,
  field: NumericField,
  bands: readonly GradeBand[],
): Cell {
  const value = row.comparison?.[field];
  // What memory holds that nobody has written to differs by chance.
  const isChance = factsOf(row.comparison?.note ?? '')[0]?.code === 'pair.unwritten';
  return value === undefined || isChance ? cell : { ...cell, grade: gradeOf(value, bands) };
}

function numberCell(
  value: number | undefined,
  style: 'number' | 'percent' | 'share',
  text: Texts,
): Cell {
  if (value === undefined) return ABSENT;
  const shown = style === 'number' ? formatNumber(value) : formatPercent(value);
  const finite = Number.isFinite(value);
  const exact = style === 'number' ? formatExact(value) : `${formatExact(value * 100)} %`;
  return {
    text: shown,
    exact,
    title: finite ? exact : `${exact}: ${text.tensors.notFinite}`,
    tone: finite ? 'plain' : 'notfinite',
    grade: Grade.UNGRADED,
  };
}

/** What merging could not tell is not the same as what was not recorded. */
function statisticCell(
  parameter: Parameter | undefined,
  name: (typeof STATISTICS)[number],
  text: Texts,
): Cell {
  const value = parameter?.[name];
  if (!parameter || value !== undefined || !isUnknown(parameter.recipe)) {
    return numberCell(value, 'number', text);
  }
  const { unknown, unknownCell } = text.origin;
  const tone = 'unknown';
  return { text: unknown, exact: unknown, title: unknownCell, tone, grade: Grade.UNGRADED };
}

/** Whether merging left open how large the whole tensor is. */
function hidesShape({ shape, recipe, dtype }: Parameter): boolean {
  return shape === '' && recipe !== '' && dtype !== '';
}

function word(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

function wordCell(value: string | undefined): Cell {
  if (!value) return ABSENT;
  return { text: value, exact: value, title: value, tone: 'plain', grade: Grade.UNGRADED };
}

/** `Float32` of MindSpore is `torch.float32`. */
function differ(npu: string | undefined, bench: string | undefined): boolean {
  return Boolean(npu && bench) && plain(npu!) !== plain(bench!);
}

function plain(value: string): string {
  return value.replace(/^(torch|mindspore)\./, '').toLowerCase();
}

function sharedCell(npu: string | undefined, bench: string | undefined, text: Texts): Cell {
  const { unknown, unknownCell } = text.origin;
  const isPair = differ(npu, bench);
  if (npu === unknown || bench === unknown) {
    const both = isPair ? `${npu} · ${bench}` : unknown;
    return { text: both, exact: both, title: unknownCell, tone: 'unknown', grade: Grade.UNGRADED };
  }
  if (!isPair) return wordCell(npu ?? bench);
  const both = `${npu} ≠ ${bench}`;
  return {
    text: both,
    exact: both,
    title: `${both}: ${text.tensors.differs}`,
    tone: 'differs',
    grade: Grade.UNGRADED,
  };
}

function equalityCell(equal: boolean | undefined, text: Texts): Cell {
  if (equal === undefined) return ABSENT;
  const shown = equal ? text.tensors.equal : text.tensors.different;
  return {
    text: shown,
    exact: shown,
    title: shown,
    tone: equal ? 'plain' : 'differs',
    grade: Grade.UNGRADED,
  };
}

function yesNo(parameter: Parameter | undefined, text: Texts): string | undefined {
  if (parameter?.requiresGrad === undefined) return undefined;
  return parameter.requiresGrad ? text.tensors.yes : text.tensors.no;
}
