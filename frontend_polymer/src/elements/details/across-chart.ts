// One node in all steps and ranks: a button per place, with the size of its error as a gauge.

import { GRADES, OVERFLOWS } from '../../data/codes';
import { measuresOf, valueAt, type Measure, type PlaceTable } from '../../data/places';
import { Grade, Overflow, type GradeBand, type NodeAcross } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { formatExact, formatNumber, formatPercent } from '../parts/format';
import { gradeBars, gradeStyle, overflowStyle } from '../parts/grade-style';
import { gradeOf } from '../../data/grades';
import { gradeName, overflowName } from '../parts/words';

/** More columns than this leave no room for numbers. */
const WITH_NUMBERS = 24;

export interface Shown {
  readonly across: NodeAcross;
  readonly measure: Measure;
  readonly bands: readonly GradeBand[];
  readonly step: number;
  readonly rank: number;
  /** Nothing is compared, but overflow was looked for. */
  readonly isOverflowShown: boolean;
}

/** What a measure is called. */
export function measureName(measure: Measure, text: Texts): string {
  if (measure === 'error') return text.across.error;
  if (measure === 'difference') return text.metrics.relative_difference;
  return text.metrics[`${measure}_relative_err`];
}

/** Buttons carry their place in the answer as `data-at`. */
export function acrossChart(table: PlaceTable, shown: Shown, text: Texts): HTMLTableElement {
  const { rows, rowKeys, columnKeys, at } = table;
  const chart = create('table', columnKeys.length > WITH_NUMBERS ? 'narrow' : '');
  chart.setAttribute('role', 'grid');
  chart.append(create('caption', 'visually-hidden', text.across.label));
  const other = rows === 'rank' ? 'step' : 'rank';
  const head = create('tr', '');
  head.append(
    header(`${text.across[rows]} \\ ${text.across[other]}`, 'col', 'corner'),
    ...columnKeys.map((key) => header(String(key), 'col', '')),
  );
  const top = create('thead', '');
  top.append(head);
  const body = create('tbody', '');
  for (const [row, key] of rowKeys.entries()) {
    const line = create('tr', '');
    line.append(header(String(key), 'row', ''));
    for (const place of at[row]!) {
      const cell = create('td', '');
      if (place >= 0) cell.append(placeButton(place, shown, text));
      else cell.append(noPlace(text));
      line.append(cell);
    }
    body.append(line);
  }
  chart.append(top, body);
  return chart;
}

function placeButton(at: number, shown: Shown, text: Texts): HTMLElement {
  const { across, measure, bands } = shown;
  const value = valueAt(across, at, measure);
  const own = GRADES[across.grade[at]!] ?? Grade.UNGRADED;
  const isError = measure === 'error';
  const grade = isError || value === undefined ? own : gradeOf(value, bands);
  const level = OVERFLOWS[across.overflow[at]!] ?? Overflow.NONE;
  const button = create('button', grade === Grade.UNMATCHED ? 'place dashed' : 'place');
  button.type = 'button';
  button.tabIndex = -1;
  button.dataset['at'] = String(at);
  button.dataset['grade'] = String(grade);
  const byOverflow = grade === Grade.UNGRADED && level !== Overflow.NONE;
  button.style.cssText = byOverflow ? overflowStyle(level) : gradeStyle(grade);
  const bars = create('span', 'bars');
  bars.style.cssText = gradeBars(grade);
  const written = (number: number) => (isError ? formatNumber(number) : formatPercent(number));
  const shownValue = value === undefined ? unmeasured(grade, level, shown, text) : written(value);
  button.append(bars, create('span', 'value', shownValue));
  if (value !== undefined) {
    const gauge = create('span', 'gauge');
    const height = Number.isNaN(value) ? 1 : Math.min(1, Math.abs(value));
    gauge.style.setProperty('--height', `${(100 * height).toFixed(1)}%`);
    button.append(gauge);
  }
  if (level !== Overflow.NONE) button.append(create('span', 'flag', '!'));
  const isHere = across.step[at] === shown.step && across.rank[at] === shown.rank;
  if (isHere) button.ariaCurrent = 'true';
  const about = facts(at, across, own, level, isHere, text);
  button.title = about.join('\n');
  // Begins with what is seen, so that whoever speaks to the browser can call it by that.
  button.ariaLabel = [shownValue, ...about].join(', ');
  return button;
}

/** What there is to say of a place where nothing was compared. */
function unmeasured(
  grade: Grade,
  level: Overflow,
  { isOverflowShown }: Shown,
  text: Texts,
): string {
  if (grade !== Grade.UNGRADED || !isOverflowShown) return gradeName(grade, text);
  return level === Overflow.NONE ? text.across.noOverflow : overflowName(level, text).name;
}

function facts(
  at: number,
  across: NodeAcross,
  grade: Grade,
  level: Overflow,
  isHere: boolean,
  text: Texts,
): string[] {
  const measured = measuresOf(across)
    .map((measure) => [measure, valueAt(across, at, measure)] as const)
    .filter(([, value]) => value !== undefined)
    .map(([measure, value]) => {
      const written = measure === 'error' ? formatExact(value!) : formatPercent(value!);
      return `${measureName(measure, text)}: ${written}`;
    });
  return [
    text.across.cell(across.step[at]!, across.rank[at]!),
    gradeName(grade, text),
    ...measured,
    ...(level === Overflow.NONE
      ? []
      : [`${text.across.overflow}: ${overflowName(level, text).name}`]),
    ...(isHere ? [text.across.here] : []),
  ];
}

function noPlace(text: Texts): HTMLElement {
  const cell = create('span', 'none');
  cell.title = text.across.missing;
  cell.role = 'img';
  cell.ariaLabel = text.across.missing;
  return cell;
}

function header(title: string, scope: string, className: string): HTMLElement {
  const cell = create('th', className, title);
  cell.scope = scope;
  return cell;
}
