import { isOutlier, type Cells } from '../../data/trend';

/** Height of a row in pixels. */
export const ROW = 20;
export const NAMES = 320;

/** Colours of a map on light and dark ground. */
export interface Ground {
  readonly isDark: boolean;
  readonly text: string;
  readonly muted: string;
}

export interface Drawn {
  readonly cells: Cells;
  readonly scores: readonly (readonly (number | undefined)[])[];
  readonly names: readonly string[];
  readonly isDifference: boolean;
  /** Where the first row lies, in pixels from the top. */
  readonly top: number;
  readonly chosen: number;
}

/** The colours of the theme that an element is shown in. */
export function groundOf(element: HTMLElement): Ground {
  const style = getComputedStyle(element);
  return {
    isDark: style.colorScheme.includes('dark'),
    text: style.getPropertyValue('--ga-text'),
    muted: style.getPropertyValue('--ga-muted'),
  };
}

/** Draws the rows in view: names, and a box for each value. */
export function drawMap(canvas: HTMLCanvasElement, drawn: Drawn, ground: Ground): void {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  if (!context) return;
  context.scale(scale, scale);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const { cells, names, top } = drawn;
  const box = columnWidth(width, cells.columns.length);
  names.forEach((name, row) => {
    const y = top + row * ROW;
    if (y + ROW < 0 || y > height) return;
    context.fillStyle = row === drawn.chosen ? ground.text : ground.muted;
    context.fillText(shortened(context, name, NAMES - 16), 8, y + ROW / 2);
    cells.rows[row]?.forEach((value, column) => {
      const score = drawn.scores[row]?.[column];
      if (value === undefined || score === undefined) return;
      const x = NAMES + column * box;
      context.fillStyle = colourOf(score, ground.isDark);
      context.fillRect(x, y, Math.max(1, box - (box > 4 ? 1 : 0)), ROW - 1);
      if (isOutlier(value, score, drawn.isDifference) && box >= 3) {
        context.fillStyle = ground.text;
        context.fillRect(x + box / 2 - 1.5, y + ROW / 2 - 2, 3, 3);
      }
    });
  });
}

/** The width of a column in pixels. */
export function columnWidth(width: number, count: number): number {
  return count ? (width - NAMES) / count : 0;
}

/** From blue over grey to red; what is not finite is magenta. */
export function colourOf(score: number, isDark: boolean): string {
  if (!Number.isFinite(score)) return '#c026d3';
  const size = Math.abs(score);
  const hue = score < 0 ? 215 : 8;
  const light = isDark ? 24 + 38 * size : 94 - 44 * size;
  return `hsl(${hue} ${size ? Math.round(12 + 73 * size) : 0}% ${Math.round(light)}%)`;
}

/** A name that fits: its end tells more than its beginning. */
function shortened(context: CanvasRenderingContext2D, name: string, width: number): string {
  if (context.measureText(name).width <= width) return name;
  let from = 1;
  while (from < name.length && context.measureText(`…${name.slice(from)}`).width > width) from += 2;
  return `…${name.slice(from)}`;
}

const ZOOM = 0.8;
const FEWEST = 4;

/** The part of the steps after a turn of the wheel at a share of the width; null for all of them. */
export function zoomed(
  [from, to]: readonly [number, number],
  last: number,
  share: number,
  isIn: boolean,
): readonly [number, number] | null {
  const factor = isIn ? ZOOM : 1 / ZOOM;
  const pivot = from + Math.max(0, share) * (to - from);
  const begin = Math.max(0, Math.round(pivot - (pivot - from) * factor));
  const end = Math.min(last, Math.max(begin + FEWEST, Math.round(pivot + (to - pivot) * factor)));
  return begin === 0 && end === last ? null : [begin, end];
}
