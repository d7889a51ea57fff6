import { isOutlier, type Cells } from '../../data/trend';

import type { RowLabel } from './trend-rows';

/** Height of a row in pixels. */
export const ROW = 20;
export const NAMES = 400;
/** Where beside the module begins what a row is there. */
const REST = 220;

/** Colours of a map on light and dark ground. */
export interface Ground {
  readonly isDark: boolean;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
}

export interface Drawn {
  readonly cells: Cells;
  readonly scores: readonly (readonly (number | undefined)[])[];
  readonly labels: readonly RowLabel[];
  readonly isDifference: boolean;
  /** Where the first row lies, in pixels from the top. */
  readonly top: number;
  /** Where the columns begin and how many pixels they take, counted from the names. */
  readonly left: number;
  readonly width: number;
  readonly chosen: number;
}

/** The colours of the theme that an element is shown in. */
export function groundOf(element: HTMLElement): Ground {
  const style = getComputedStyle(element);
  return {
    isDark: style.colorScheme.includes('dark'),
    text: style.getPropertyValue('--ga-text'),
    muted: style.getPropertyValue('--ga-muted'),
    line: style.getPropertyValue('--ga-border'),
  };
}

/** Draws names and boxes; what the boxes show is painted once, a pixel each, and then stretched. */
export class TrendMap {
  private readonly picture = document.createElement('canvas');
  /** Places of outliers in the picture. */
  private marks: readonly (readonly [row: number, column: number])[] = [];
  /** What the picture shows. */
  private painted: { cells: Cells; isDark: boolean } | null = null;

  draw(canvas: HTMLCanvasElement, drawn: Drawn, ground: Ground): void {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext('2d');
    if (!context) return;
    context.scale(scale, scale);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    drawLabels(context, drawn, height, ground);
    if (drawn.cells !== this.painted?.cells || ground.isDark !== this.painted.isDark) {
      this.paint(drawn, ground.isDark);
    }
    this.drawBoxes(context, drawn, ground, width - NAMES);
  }

  private drawBoxes(
    context: CanvasRenderingContext2D,
    { cells, top, left, width }: Drawn,
    ground: Ground,
    room: number,
  ): void {
    const { length: rows } = cells.rows;
    const { length: columns } = cells.columns;
    if (!rows || !columns || width <= 0) return;
    const box = width / columns;
    context.beginPath();
    context.rect(NAMES, 0, room, top + rows * ROW);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, NAMES + left, top, width, rows * ROW);
    for (let row = 0; row < rows; row++)
      context.clearRect(NAMES, top + row * ROW + ROW - 1, room, 1);
    if (box > 4) {
      for (let column = 1; column <= columns; column++) {
        context.clearRect(NAMES + left + column * box - 1, top, 1, rows * ROW);
      }
    }
    if (box < 3) return;
    context.fillStyle = ground.text;
    for (const [row, column] of this.marks) {
      const x = NAMES + left + (column + 0.5) * box;
      context.fillRect(x - 1.5, top + row * ROW + ROW / 2 - 2, 3, 3);
    }
  }

  private paint({ cells, scores, isDifference }: Drawn, isDark: boolean): void {
    this.painted = { cells, isDark };
    this.marks = [];
    const { picture } = this;
    picture.width = cells.columns.length;
    picture.height = cells.rows.length;
    const context = picture.getContext('2d');
    if (!context || !picture.width || !picture.height) return;
    const palette = paletteOf(isDark);
    const image = context.createImageData(picture.width, picture.height);
    const pixels = new Uint32Array(image.data.buffer);
    const marks: [number, number][] = [];
    cells.rows.forEach((values, row) => {
      values.forEach((value, column) => {
        const score = scores[row]?.[column];
        if (value === undefined || score === undefined) return;
        const shade = Number.isFinite(score) ? Math.round(score * SHADES) + SHADES : 2 * SHADES + 1;
        pixels[row * picture.width + column] = palette[shade]!;
        if (isOutlier(value, score, isDifference)) marks.push([row, column]);
      });
    });
    context.putImageData(image, 0, 0);
    this.marks = marks;
  }
}

/** A module stands beside the first of its rows, and of those in view. */
function drawLabels(
  context: CanvasRenderingContext2D,
  { labels, top, chosen }: Drawn,
  height: number,
  ground: Ground,
): void {
  let above: string | null = null;
  labels.forEach(({ group, rest }, row) => {
    const y = top + row * ROW;
    if (y + ROW / 2 < 0 || y > height) return;
    const middle = y + ROW / 2;
    context.fillStyle = row === chosen ? ground.text : ground.muted;
    context.fillText(shortened(context, rest, NAMES - REST - 8), REST, middle);
    if (group === above) return;
    above = group;
    context.fillStyle = ground.text;
    context.fillText(shortened(context, group, REST - 16), 8, middle);
    context.fillStyle = ground.line;
    if (row > 0) context.fillRect(0, y - 1, NAMES, 1);
  });
}

/** So many colours on each side of grey. */
const SHADES = 128;

/** From -1 to 1, and that of what is not finite, as pixels. */
function paletteOf(isDark: boolean): Uint32Array {
  const canvas = Object.assign(document.createElement('canvas'), {
    width: 2 * SHADES + 2,
    height: 1,
  });
  const context = canvas.getContext('2d', { willReadFrequently: true })!;
  for (let at = 0; at < canvas.width; at++) {
    context.fillStyle = colourOf(at > 2 * SHADES ? NaN : at / SHADES - 1, isDark);
    context.fillRect(at, 0, 1, 1);
  }
  return new Uint32Array(context.getImageData(0, 0, canvas.width, 1).data.buffer);
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
