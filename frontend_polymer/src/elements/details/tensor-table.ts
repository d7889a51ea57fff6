import {
  Grade,
  Kind,
  Section,
  type NodeDetail,
  type Parameter,
  type ParameterRow,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import '../parts/ga-icon';
import { gradeBars } from '../parts/grade-style';
import { slicesOf } from '../../data/slices';
import { differenceView, thumbnail } from '../parts/difference-picture';
import { isMerged, recipeView } from './merge-recipe';
import { nameOf, sorted, type TableLook } from './table-look';
import type { Cell, Column, ColumnGroup } from './tensor-columns';
import { gradeName } from '../parts/words';

export interface TableOptions {
  /** What the model's, or the debug, side is called. */
  readonly side: string;
  readonly look: TableLook;
  /** Whether the making of this row's values is shown. */
  readonly isOpen: (row: ParameterRow) => boolean;
}

/** As the names of parameters begin. */
const SECTION_NAMES: Record<Section, string> = {
  [Section.INPUT]: 'input',
  [Section.OUTPUT]: 'output',
  [Section.PARAMETERS]: 'parameters',
  [Section.PARAMETERS_GRAD]: 'parameters_grad',
};

/** What is wrong stands first, beside the names: it must never be cut. */
const GROUPS: readonly ColumnGroup[] = ['comparison', 'npu', 'bench', 'shared', 'difference'];

/** The table of a node's parameters, or a note that it has none. Buttons carry `data-sort`, or
 *  `data-row`, the place of a row whose values were merged. */
export function tensorTable(
  detail: NodeDetail,
  columns: readonly Column[],
  options: TableOptions,
  text: Texts,
): HTMLElement {
  if (detail.rows.length === 0) return create('p', 'muted', emptyText(detail, text));
  const { look } = options;
  const shown = columns.filter(({ key }) => !look.hidden.includes(key));
  const grid = create('table', look.exact ? 'exact' : '');
  grid.append(
    create('caption', 'visually-hidden', text.tensors.caption),
    head(shown, options, text),
  );
  const body = create('tbody', '');
  let section: Section | undefined;
  for (const row of sorted(detail.rows, columns, look.sort)) {
    const parameter = row.npu ?? row.bench;
    if (!parameter) continue;
    const rows = parameterRows(detail, row, shown, options, text);
    if (!look.sort && parameter.section !== section) {
      if (section !== undefined) rows[0]!.classList.add('begins');
      section = parameter.section;
      rows[0]!.dataset['section'] = SECTION_NAMES[section];
    }
    body.append(...rows);
  }
  grid.append(body);
  return grid;
}

function head(
  columns: readonly Column[],
  { side, look }: TableOptions,
  text: Texts,
): HTMLTableSectionElement {
  const section = create('thead', '');
  const groups = create('tr', '');
  const names = create('tr', '');
  const corner = sortable('group name', 'name', text.tensors.parameter, '', look, text);
  corner.rowSpan = 2;
  groups.append(corner);
  const titles: Record<Exclude<ColumnGroup, 'shared'>, string> = {
    npu: side,
    bench: text.sides.reference,
    comparison: text.tensors.errors,
    difference: text.tensors.differences,
  };
  for (const group of GROUPS) {
    const members = columns.filter((column) => column.group === group);
    if (members.length === 0) continue;
    const title = group === 'shared' ? create('td', 'first') : groupTitle(titles[group]);
    title.colSpan = members.length;
    groups.append(title);
    names.append(
      ...members.map((column, at) =>
        sortable(cellClass(column, at), column.key, column.label, column.hint, look, text),
      ),
    );
  }
  section.append(groups, names);
  return section;
}

/** The header of a column, which sorts by it. */
function sortable(
  className: string,
  key: string,
  label: string,
  hint: string,
  { sort }: TableLook,
  text: Texts,
): HTMLTableCellElement {
  const header = create('th', className);
  header.scope = 'col';
  const button = create('button', 'plain sort', label);
  button.type = 'button';
  button.dataset['sort'] = key;
  button.title = [hint, text.table.sortHint].filter((line) => line !== '').join('\n');
  if (sort?.key === key) {
    header.ariaSort = sort.descending ? 'descending' : 'ascending';
    const arrow = create('span', 'arrow', sort.descending ? '▼' : '▲');
    arrow.ariaHidden = 'true';
    button.append(arrow);
  }
  header.append(button);
  return header;
}

function groupTitle(text: string): HTMLTableCellElement {
  const title = create('th', 'group first');
  title.scope = 'colgroup';
  title.append(create('span', 'fit', text));
  title.title = text;
  return title;
}

function parameterRows(
  detail: NodeDetail,
  row: ParameterRow,
  columns: readonly Column[],
  { look, side, isOpen }: TableOptions,
  text: Texts,
): HTMLTableRowElement[] {
  const line = create('tr', '');
  const merged = mergeViews(detail, row, side, text);
  const slices = slicesOf(row);
  const isOpened = isOpen(row);
  const views = [
    ...(slices && isOpened ? [differenceView(row, slices, text)] : []),
    ...(look.recipes || isOpened ? merged : []),
  ];
  const open = views.length > 0;
  const at = detail.rows.indexOf(row);
  const name = nameCell(row, detail.npu !== undefined && detail.bench !== undefined, text);
  if (merged.length > 0) name.append(toggle(at, open, 'recipe-toggle', text.origin.how, icon()));
  line.append(name);
  for (const group of GROUPS) {
    const members = columns.filter((column) => column.group === group);
    if (members.length === 0) continue;
    const parameter = group === 'npu' || group === 'bench' ? row[group] : undefined;
    const value = parameter && valueOf(parameter);
    if (value !== undefined) {
      const other = group === 'npu' ? row.bench : row.npu;
      line.append(valueCell(value, other && valueOf(other), members.length, text));
    } else {
      const cells = members.map((column, place) => {
        const content = column.cell(row);
        const cell = tensorCell(column, content, place, look.exact, text);
        const { picture } = content;
        if (picture) {
          cell.prepend(toggle(at, isOpened, 'picture', text.where.show, thumbnail(picture)));
        }
        return cell;
      });
      line.append(...cells);
    }
  }
  if (!open) return [line];
  const extra = create('tr', 'recipes');
  const cell = create('td', '');
  cell.colSpan = columns.length + 1;
  const box = create('div', '');
  box.append(...views);
  cell.append(box);
  extra.append(cell);
  return [line, extra];
}

/** How the values of a row were merged, for each side that was. */
function mergeViews(
  { npu, bench }: NodeDetail,
  row: ParameterRow,
  side: string,
  text: Texts,
): HTMLElement[] {
  const sides = [
    [row.npu, npu, side],
    [row.bench, bench, text.sides.reference],
  ] as const;
  return sides.flatMap(([parameter, record, name]) =>
    parameter && record && isMerged(parameter, record)
      ? [recipeView(parameter, record, name, text)]
      : [],
  );
}

/** A button that shows below its row what more is known of it. */
function toggle(
  row: number,
  isOpen: boolean,
  className: string,
  title: string,
  content: Element,
): HTMLElement {
  const button = create('button', `plain ${className}`);
  button.type = 'button';
  button.dataset['row'] = String(row);
  button.title = title;
  button.ariaLabel = title;
  button.ariaExpanded = String(isOpen);
  button.append(content);
  return button;
}

function icon(): HTMLElement {
  return Object.assign(document.createElement('ga-icon'), { name: 'merge' });
}

function emptyText({ npu, bench, tensorsLeftOut }: NodeDetail, text: Texts): string {
  const isApi = (npu ?? bench)?.kind === Kind.API;
  if (tensorsLeftOut) return text.tensors.leftOut;
  return isApi ? text.tensors.none : text.tensors.noneModule;
}

/** Where two nodes are compared, a parameter that only one of them has says so. */
function nameCell(row: ParameterRow, isPair: boolean, text: Texts): HTMLElement {
  const { npu, bench } = row;
  const cell = create('th', 'name', nameOf(row));
  cell.scope = 'row';
  if (npu?.overflows || bench?.overflows) {
    const flag = create('span', 'flag', ' !');
    flag.title = text.tensors.overflows;
    cell.append(flag);
  }
  if (isPair && !(npu && bench)) {
    const oneSide = npu ? text.tensors.onlyDebug : text.tensors.onlyReference;
    cell.append(create('span', 'one-side', oneSide));
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

function tensorCell(
  column: Column,
  content: Cell,
  at: number,
  isExact: boolean,
  text: Texts,
): HTMLElement {
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
  cell.append(isExact ? content.exact : content.text);
  return cell;
}

/** A line sets the groups apart; the first follows the frozen names, which have their own. */
function cellClass(column: Column, at: number): string {
  return [column.numeric ? 'numeric' : '', at === 0 ? 'first' : ''].join(' ').trim();
}
