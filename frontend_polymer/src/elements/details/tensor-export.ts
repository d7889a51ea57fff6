// The table of tensors as rows of a file.

import type { Field } from '../../data/delimited';
import {
  Section,
  type NodeDetail,
  type Parameter,
  type ParameterRow,
} from '../../generated/graph_pb';
import { nameOf } from './table-look';
import type { Column } from './tensor-columns';

const SECTIONS: Record<Section, string> = {
  [Section.INPUT]: 'input',
  [Section.OUTPUT]: 'output',
  [Section.PARAMETERS]: 'parameters',
  [Section.PARAMETERS_GRAD]: 'parameters_grad',
};
const SIDES = ['npu', 'bench'] as const;
const STATISTICS = ['max', 'min', 'mean', 'norm'] as const;
/** Of each side. */
const OWN = [
  ...['name', 'type', 'dtype', 'shape', 'requires_grad'],
  ...STATISTICS,
  ...['md5', 'value', 'merged'],
];

/** What is shown, in the order shown, each number in full; relative errors are fractions. */
export function shownRows(rows: readonly ParameterRow[], columns: readonly Column[]): Field[][] {
  const values = SIDES.filter((side) => rows.some((row) => row[side]?.value !== undefined));
  return [
    ['parameter', ...columns.map(({ key }) => key), ...values.map((side) => `${side}_value`)],
    ...rows.map((row) => [
      nameOf(row),
      ...columns.map((column) => column.value(row)),
      ...values.map((side) => row[side]?.value),
    ]),
  ];
}

/** Everything that is known of each parameter, in the order of execution. */
export function fileRows(
  detail: NodeDetail,
  place: { readonly step: number; readonly rank: number },
  columns: readonly Column[],
  tell: (said: string) => string,
): Field[][] {
  const errors = columns.filter(({ group }) => group === 'comparison' || group === 'difference');
  const head = ['step', 'rank', 'npu_node', 'bench_node', 'section'];
  return [
    [
      ...head,
      ...SIDES.flatMap((side) => OWN.map((name) => `${side}_${name}`)),
      ...errors.map(({ key }) => key),
    ],
    ...detail.rows.map((row) => [
      ...[place.step, place.rank, detail.npu?.name, detail.bench?.name],
      SECTIONS[(row.npu ?? row.bench)?.section ?? Section.INPUT],
      ...SIDES.flatMap((side) => parameterFields(row[side], tell)),
      ...errors.map((column) => column.value(row)),
    ]),
  ];
}

function parameterFields(
  parameter: Parameter | undefined,
  tell: (said: string) => string,
): Field[] {
  if (!parameter) return Array<Field>(OWN.length).fill(undefined);
  const { name, type, dtype, shape, requiresGrad, md5, value, recipe } = parameter;
  const statistics = STATISTICS.map((statistic) => parameter[statistic]);
  return [name, type, dtype, shape, requiresGrad, ...statistics, md5, value, tell(recipe)];
}
