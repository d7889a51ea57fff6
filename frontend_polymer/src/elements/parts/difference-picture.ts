// Where two tensors differ as a picture: rows down, columns across, darker where more is.

import { boundsOf, type Axis, type Slices } from '../../data/slices';
import type { ParameterRow } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from './create';
import { formatPercent } from './format';

const SVG = 'http://www.w3.org/2000/svg';
/** Cells that are paler cannot be told from none. */
const PALEST = 0.06;

/** A small one beside a number. */
export function thumbnail(slices: Slices): SVGSVGElement {
  const { rows, columns } = slices;
  const view = svg('svg', { viewBox: `0 0 ${columns.shares.length} ${rows.shares.length}` });
  view.setAttribute('preserveAspectRatio', 'none');
  view.setAttribute('aria-hidden', 'true');
  view.append(...cells(slices, 1, 1));
  return view;
}

/** The same at large, with what each slice holds at its edges, and in words. */
export function differenceView(row: ParameterRow, slices: Slices, text: Texts): HTMLElement {
  const { where } = text;
  const view = create('section', 'difference');
  const words = create('div', '');
  words.append(create('strong', '', where.title));
  const note = row.comparison?.note;
  if (note) words.append(create('p', 'said', text.verdict.tell(note)));
  for (const [axis, name] of [
    [slices.rows, where.rows],
    [slices.columns, where.columns],
  ] as const) {
    words.append(create('p', 'muted', `${name(axis.length)}: ${most(axis, text)}`));
  }
  words.append(create('p', 'muted', where.legend));
  view.append(picture(slices, text), words);
  return view;
}

const CELL = 6;
const BAR = 18;
const GAP = 4;

function picture(slices: Slices, text: Texts): SVGSVGElement {
  const { rows, columns } = slices;
  const width = columns.shares.length * CELL;
  const height = rows.shares.length * CELL;
  const [right, bottom] = [width + GAP + BAR + 2, height + GAP + BAR + 2];
  const view = svg('svg', {
    viewBox: `-1 -1 ${right} ${bottom}`,
    width: String(right),
    height: String(bottom),
    role: 'img',
    'aria-label': text.where.title,
  });
  view.append(
    svg('rect', {
      class: 'frame',
      x: '-0.5',
      y: '-0.5',
      width: `${width + 1}`,
      height: `${height + 1}`,
    }),
    ...cells(slices, CELL, CELL),
    ...rows.shares.map((share, place) =>
      bar(rows, place, text.where.row, text, {
        x: `${width + GAP}`,
        y: `${place * CELL + 1}`,
        width: `${share * BAR}`,
        height: `${CELL - 2}`,
      }),
    ),
    ...columns.shares.map((share, place) =>
      bar(columns, place, text.where.column, text, {
        x: `${place * CELL + 1}`,
        y: `${height + GAP}`,
        width: `${CELL - 2}`,
        height: `${share * BAR}`,
      }),
    ),
  );
  return view;
}

/** Rows by columns; a cell has what chance would put there of both its slices. */
function cells({ rows, columns }: Slices, width: number, height: number): SVGElement[] {
  const most = Math.max(...rows.shares) * Math.max(...columns.shares);
  return rows.shares.flatMap((down, y) =>
    columns.shares.flatMap((across, x) => {
      const strength = most > 0 ? Math.sqrt((down * across) / most) : 0;
      if (strength < PALEST) return [];
      return [
        svg('rect', {
          x: `${x * width}`,
          y: `${y * height}`,
          width: `${width}`,
          height: `${height}`,
          'fill-opacity': strength.toFixed(2),
        }),
      ];
    }),
  );
}

function bar(
  axis: Axis,
  place: number,
  name: (first: number, last: number) => string,
  text: Texts,
  attributes: Record<string, string>,
): SVGElement {
  const made = svg('rect', { class: 'share', ...attributes });
  const title = svg('title', {});
  title.textContent = text.where.share(
    name(...boundsOf(axis, place)),
    formatPercent(axis.shares[place] ?? 0),
  );
  made.append(title);
  return made;
}

/** The slice that holds most. */
function most(axis: Axis, text: Texts): string {
  const share = Math.max(...axis.shares);
  const [first, last] = boundsOf(axis, axis.shares.indexOf(share));
  return text.where.most(first === last ? `${first}` : `${first}–${last}`, formatPercent(share));
}

function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
