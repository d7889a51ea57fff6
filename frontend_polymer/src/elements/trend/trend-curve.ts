import type { Cells } from '../../data/trend';
import { formatNumber } from '../parts/format';

const HEIGHT = 150;
const LEFT = 90;
const BOTTOM = 20;
const MANY = 300;
const SVG = 'http://www.w3.org/2000/svg';

/** The values of one row as a curve, with its scale; gaps where there is no finite value. */
export function curveOf(cells: Cells, row: number, name: string, width: number): SVGSVGElement {
  const values = cells.rows[row] ?? [];
  const finite = values.filter((value): value is number => Number.isFinite(value));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const span = high - low || Math.abs(high) || 1;
  const x = (column: number) =>
    LEFT + ((width - LEFT - 12) * column) / Math.max(1, values.length - 1);
  const y = (value: number) => 8 + (HEIGHT - BOTTOM - 16) * (1 - (value - low) / span);
  const svg = element('svg', { width, height: HEIGHT, role: 'img', 'aria-label': name });
  if (!finite.length) return svg;
  let path = '';
  values.forEach((value, column) => {
    if (value === undefined || !Number.isFinite(value)) return;
    const before = values[column - 1];
    const isJoined = before !== undefined && Number.isFinite(before);
    path += `${isJoined ? 'L' : 'M'}${x(column).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!isJoined) path += 'h.01';
  });
  svg.append(
    element('path', {
      d: path,
      fill: 'none',
      stroke: 'currentColor',
      // Thin lines keep neighbouring steps apart where there are many.
      'stroke-width': values.length > MANY ? 1 : 1.5,
      'stroke-linecap': 'round',
      'stroke-linejoin': 'bevel',
    }),
    label(formatNumber(high), LEFT - 8, 14, 'end'),
    label(formatNumber(low), LEFT - 8, HEIGHT - BOTTOM - 4, 'end'),
    label(String(cells.columns[0]), LEFT, HEIGHT - 4, 'start'),
    label(String(cells.columns.at(-1)), width - 12, HEIGHT - 4, 'end'),
  );
  return svg;
}

function label(content: string, x: number, y: number, anchor: string): SVGElement {
  const text = element('text', {
    x,
    y,
    'text-anchor': anchor,
    fill: 'currentColor',
    'font-size': 11,
  });
  text.textContent = content;
  return text;
}

function element<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}
