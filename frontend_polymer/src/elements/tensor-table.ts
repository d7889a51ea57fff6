import {
  Grade,
  Kind,
  Section,
  type NodeDetail,
  type Parameter,
  type ParameterRow,
} from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { create } from './create';
import { gradeBars } from './grade-style';
import type { Cell, Column, ColumnGroup } from './tensor-columns';
import { gradeName } from './words';

const GROUPS: readonly ColumnGroup[] = ['shared', 'npu', 'bench', 'comparison'];

/** The table of a node's parameters, or a note that it has none. */
export function tensorTable(
  detail: NodeDetail,
  columns: readonly Column[],
  side: string,
  text: Texts,
): HTMLElement {
  if (detail.rows.length === 0) return create('p', 'muted', emptyText(detail, text));
  return table(detail, columns, side, text);
}

function table(
  detail: NodeDetail,
  columns: readonly Column[],
  side: string,
  text: Texts,
): HTMLTableElement {
  const grid = create('table', '');
  grid.append(
    create('caption', 'visually-hidden', text.tensors.caption),
    head(columns, side, text),
  );
  const body = create('tbody', '');
  let section: Section | undefined;
  const isPair = detail.npu !== undefined && detail.bench !== undefined;
  for (const row of detail.rows) {
    const parameter = row.npu ?? row.bench;
    if (!parameter) continue;
    if (parameter.section !== section) {
      section = parameter.section;
      body.append(sectionRow(section, columns.length, text));
    }
    body.append(parameterRow(row, columns, isPair, text));
  }
  grid.append(body);
  return grid;
}

function head(columns: readonly Column[], side: string, text: Texts): HTMLTableSectionElement {
  const section = create('thead', '');
  const groups = create('tr', '');
  const names = create('tr', '');
  const corner = create('th', 'group name', text.tensors.parameter);
  corner.scope = 'col';
  corner.rowSpan = 2;
  groups.append(corner);
  const titles: Record<Exclude<ColumnGroup, 'shared'>, string> = {
    npu: side,
    bench: text.sides.reference,
    comparison: text.tensors.errors,
  };
  for (const group of GROUPS) {
    const members = columns.filter((column) => column.group === group);
    if (members.length === 0) continue;
    const title = group === 'shared' ? create('td', '') : groupTitle(titles[group]);
    title.colSpan = members.length;
    groups.append(title);
    names.append(
      ...members.map((column, at) => {
        const name = create('th', cellClass(column, at), column.label);
        name.scope = 'col';
        name.title = column.hint;
        return name;
      }),
    );
  }
  section.append(groups, names);
  return section;
}

function groupTitle(text: string): HTMLTableCellElement {
  const title = create('th', 'group first', text);
  title.scope = 'colgroup';
  return title;
}

function sectionRow(section: Section, width: number, text: Texts): HTMLTableRowElement {
  const titles: Record<Section, string> = {
    [Section.INPUT]: text.tensors.input,
    [Section.OUTPUT]: text.tensors.output,
    [Section.PARAMETERS]: text.tensors.parameters,
    [Section.PARAMETERS_GRAD]: text.tensors.parametersGrad,
  };
  const row = create('tr', 'section');
  const title = create('th', 'name', titles[section]);
  title.scope = 'rowgroup';
  const rest = create('td', '');
  rest.colSpan = width;
  row.append(title, rest);
  return row;
}

function parameterRow(
  row: ParameterRow,
  columns: readonly Column[],
  isPair: boolean,
  text: Texts,
): HTMLTableRowElement {
  const line = create('tr', '');
  line.append(nameCell(row, isPair, text));
  for (const group of GROUPS) {
    const members = columns.filter((column) => column.group === group);
    if (members.length === 0) continue;
    const parameter = group === 'npu' || group === 'bench' ? row[group] : undefined;
    const value = parameter && valueOf(parameter);
    if (value !== undefined) {
      const other = group === 'npu' ? row.bench : row.npu;
      line.append(valueCell(value, other && valueOf(other), members.length, text));
    } else {
      line.append(...members.map((column, at) => tensorCell(column, column.cell(row), at, text)));
    }
  }
  return line;
}

function emptyText({ npu, bench }: NodeDetail, text: Texts): string {
  const isApi = (npu ?? bench)?.kind === Kind.API;
  return isApi ? text.tensors.none : text.tensors.noneModule;
}

/** Where two nodes are compared, a parameter that only one of them has says so. */
function nameCell({ npu, bench }: ParameterRow, isPair: boolean, text: Texts): HTMLElement {
  const names = [npu?.name, bench?.name].filter((name) => name !== undefined);
  const cell = create('th', 'name', [...new Set(names)].join(' / '));
  cell.scope = 'row';
  if (npu?.overflows || bench?.overflows) {
    const flag = create('span', 'flag', ' !');
    flag.title = text.tensors.overflows;
    cell.append(flag);
  }
  if (isPair && !(npu && bench)) {
    const lone = npu ? text.tensors.onlyDebug : text.tensors.onlyReference;
    cell.append(create('span', 'lone', lone));
  }
  return cell;
}

/** What is passed or returned instead of a tensor; Python's None leaves neither type nor value. */
function valueOf({ value, type, dtype }: Parameter): string | undefined {
  return value ?? (type === '' && dtype === '' ? 'None' : undefined);
}

/** What is not a tensor fills its side's columns. */
function valueCell(
  value: string,
  other: string | undefined,
  width: number,
  text: Texts,
): HTMLElement {
  const differs = other !== undefined && other !== value;
  const cell = create('td', value === 'None' ? 'first value absent' : 'first value');
  cell.colSpan = width;
  cell.title = differs ? `${value}: ${text.tensors.differs}` : value;
  cell.append(create('span', differs ? 'differs' : '', value));
  return cell;
}

function tensorCell(column: Column, content: Cell, at: number, text: Texts): HTMLElement {
  const cell = create('td', `${cellClass(column, at)} ${content.tone}`);
  cell.title = content.title;
  if (content.grade !== Grade.UNGRADED) {
    cell.dataset['grade'] = String(content.grade);
    cell.title += ` (${gradeName(content.grade, text)})`;
    if (content.grade > Grade.OK) {
      const bars = create('span', 'bars');
      bars.style.cssText = gradeBars(content.grade);
      bars.role = 'img';
      bars.ariaLabel = gradeName(content.grade, text);
      cell.append(bars);
    }
  }
  cell.append(content.text);
  return cell;
}

/** A line sets the groups apart; the first follows the frozen names, which have their own. */
function cellClass(column: Column, at: number): string {
  const isFirst = at === 0 && column.group !== 'shared';
  return [column.numeric ? 'numeric' : '', isFirst ? 'first' : ''].join(' ').trim();
}
