import { Grade, Overflow, type DatabaseFile, type GraphPair } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { formatCount } from '../parts/format';
import { gradeBars, gradeStyle, overflowStyle } from '../parts/grade-style';
import { gradeName, overflowName } from '../parts/words';

/** Rows are made so many at a time: a file may hold tens of thousands of graphs. */
const ROWS_AT_ONCE = 50;

interface Count {
  readonly name: string;
  /** The colours of the heading's swatch. */
  readonly style: string;
  readonly bars: string;
  of(pair: GraphPair): number;
}

/** A table whose later rows are still to be made. */
export interface GraphCounts {
  readonly table: HTMLTableElement;
  /** Makes the next rows, where there are any. */
  readonly more: () => void;
}

/** One row per graph and one for all of them: nodes, grades, unmatched, overflow. */
export function graphCounts(file: DatabaseFile, text: Texts): GraphCounts {
  const counts = [...gradeColumns(file, text), ...overflowColumns(file, text)];
  const table = create('table', 'counts');
  const head = create('thead', '');
  const names = create('tr', '');
  names.append(...[text.toolbar.step, text.toolbar.rank].map((name) => heading(name)));
  names.append(heading(text.overview.nodes), ...counts.map(countHeading));
  head.append(names);
  const body = create('tbody', '');
  const totals = create('tr', 'totals');
  const title = create('th', '', text.overview.totals);
  title.scope = 'row';
  title.colSpan = 2;
  totals.append(title, countCell(sum(file.graphs, (pair) => pair.npuNodes)));
  totals.append(...counts.map((count) => countCell(sum(file.graphs, (pair) => count.of(pair)))));
  body.append(totals);
  table.append(head, body);
  let made = 0;
  const more = () => {
    const next = file.graphs.slice(made, made + ROWS_AT_ONCE);
    body.append(...next.map((pair) => graphRow(pair, counts, text)));
    made += next.length;
  };
  more();
  return { table, more };
}

function gradeColumns(file: DatabaseFile, text: Texts): Count[] {
  if (!file.isComparison) return [];
  const column = (name: string, grade: Grade, of: Count['of']): Count => ({
    ...{ name, of, style: gradeStyle(grade), bars: gradeBars(grade) },
  });
  const grades = [
    ...[Grade.SEVERE, Grade.SERIOUS, Grade.MODERATE, Grade.SLIGHT, Grade.OK, Grade.UNGRADED],
  ].map((grade) => column(gradeName(grade, text), grade, (pair) => pair.gradeCounts[grade] ?? 0));
  const { unmatchedDebug, unmatchedReference } = text.overview;
  return [
    ...grades,
    column(unmatchedDebug, Grade.UNMATCHED, (pair) => pair.npuUnmatched),
    column(unmatchedReference, Grade.UNMATCHED, (pair) => pair.benchUnmatched),
  ];
}

function overflowColumns(file: DatabaseFile, text: Texts): Count[] {
  if (!file.overflowChecked) return [];
  return ([Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM] as const).map((level) => ({
    name: text.overview.overflow(overflowName(level, text).name),
    style: `${overflowStyle(level)}; border-radius: 7px`,
    bars: 'display: none',
    of: (pair) => pair.overflowCounts[level] ?? 0,
  }));
}

function graphRow(pair: GraphPair, counts: readonly Count[], text: Texts): HTMLElement {
  const row = create('tr', '');
  const open = create('button', 'plain', String(pair.rank));
  open.type = 'button';
  Object.assign(open.dataset, { step: pair.step, rank: pair.rank });
  open.ariaLabel = text.overview.cell(pair.step, pair.rank);
  const rank = create('td', 'numeric');
  rank.append(open);
  row.append(create('td', 'numeric', String(pair.step)), rank, countCell(pair.npuNodes));
  row.append(...counts.map((count) => countCell(count.of(pair))));
  return row;
}

function heading(name: string): HTMLElement {
  const cell = create('th', 'numeric', name);
  cell.scope = 'col';
  return cell;
}

function countHeading({ name, style, bars }: Count): HTMLElement {
  const cell = heading('');
  const swatch = create('span', 'swatch');
  swatch.style.cssText = style;
  const inner = create('span', 'bars');
  inner.style.cssText = bars;
  swatch.append(inner);
  cell.append(swatch, name);
  return cell;
}

function countCell(count: number): HTMLElement {
  return create('td', count === 0 ? 'numeric zero' : 'numeric', formatCount(count));
}

function sum(pairs: readonly GraphPair[], of: (pair: GraphPair) => number): number {
  return pairs.reduce((total, pair) => total + of(pair), 0);
}
