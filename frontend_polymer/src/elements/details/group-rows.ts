// The table of a call that only together with others has a counterpart.

import type { NodeDetail, Parameter, ParameterRow } from '../../generated/graph_pb';

/** The details with what goes into and comes out of the whole group in place of the call's own. */
export function withGroupRows(detail: NodeDetail | null): NodeDetail | null {
  const rows = detail?.group?.rows ?? [];
  if (!detail || rows.length === 0) return detail;
  const shown = rows.flatMap(({ npuName, benchName, row }) =>
    row ? [named(row, npuName, benchName)] : [],
  );
  return { ...detail, rows: shown };
}

function named(row: ParameterRow, npuName: string, benchName: string): ParameterRow {
  return {
    ...row,
    ...(row.npu ? { npu: ofCall(row.npu, npuName) } : {}),
    ...(row.bench ? { bench: ofCall(row.bench, benchName) } : {}),
  };
}

function ofCall(parameter: Parameter, name: string): Parameter {
  // Family and direction go without saying: `matmul.0 input.0`.
  const call = name.split('.').slice(1, -1).join('.') || name;
  return { ...parameter, name: `${call} ${parameter.name}` };
}
