import { formatNumber } from './format';

const LEFT = 90;
const RIGHT = 12;
const BOTTOM = 20;
const TOP = 8;
const MANY = 300;
const SVG = 'http://www.w3.org/2000/svg';

/** The values of one line, by column; `undefined` where there is none. */
export type Line = readonly (number | undefined)[];

export interface CurvesLook {
  readonly width: number;
  readonly height: number;
  /** What the picture shows, in words. */
  readonly label: string;
}

/**
 * Lines over steps with one scale: the first in the colour around, the second grey and dashed. A gap
 * where there is no value, a cross at the upper edge where it is not finite.
 */
export function curves(
  columns: readonly number[],
  lines: readonly Line[],
  { width, height, label }: CurvesLook,
): SVGSVGElement {
  const finite = lines.flat().filter((value): value is number => Number.isFinite(value));
  const svg = element('svg', { width, height, role: 'img', 'aria-label': label });
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const span = high - low;
  const { length } = columns;
  const x = (column: number) => LEFT + ((width - LEFT - RIGHT) * column) / Math.max(1, length - 1);
  // A line that does not move stands in the middle.
  const share = (value: number) => (span > 0 ? (value - low) / span : 0.5);
  const y = (value: number) => TOP + (height - BOTTOM - 2 * TOP) * (1 - share(value));
  lines.forEach((values, at) => {
    svg.append(
      element('path', {
        d: path(values, x, y),
        class: at === 0 ? 'own' : 'other',
        fill: 'none',
        stroke: 'currentColor',
        // Thin lines keep neighbouring steps apart where there are many.
        'stroke-width': length > MANY ? 1 : 1.5,
        'stroke-linecap': 'round',
        'stroke-linejoin': 'bevel',
      }),
      ...crosses(values, x).map((d) =>
        element('path', { d, class: 'broken', stroke: 'currentColor', 'stroke-width': 2 }),
      ),
    );
  });
  if (finite.length) {
    svg.append(
      ...[...new Set([high, low])].map((value) =>
        text(formatNumber(value), LEFT - 8, y(value) + 4, 'end'),
      ),
    );
  }
  if (length) {
    svg.append(
      text(String(columns[0]), LEFT, height - 4, 'start'),
      text(String(columns.at(-1)), width - RIGHT, height - 4, 'end'),
    );
  }
  return svg;
}

function path(values: Line, x: (column: number) => number, y: (value: number) => number): string {
  let drawn = '';
  values.forEach((value, column) => {
    if (value === undefined || !Number.isFinite(value)) return;
    const before = values[column - 1];
    const isJoined = before !== undefined && Number.isFinite(before);
    drawn += `${isJoined ? 'L' : 'M'}${x(column).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!isJoined) drawn += 'h.01';
  });
  return drawn;
}

function crosses(values: Line, x: (column: number) => number): string[] {
  return values.flatMap((value, column) => {
    if (value === undefined || Number.isFinite(value)) return [];
    return [`M${(x(column) - 4).toFixed(1)} ${TOP - 4}l8 8m0-8l-8 8`];
  });
}

function text(content: string, x: number, y: number, anchor: string): SVGElement {
  const made = element('text', {
    x,
    y,
    'text-anchor': anchor,
    fill: 'currentColor',
    'font-size': 11,
  });
  made.textContent = content;
  return made;
}

function element<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}
