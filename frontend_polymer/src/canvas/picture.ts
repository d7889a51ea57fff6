import type { Side } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import { fontOf, type Measure } from './measure';
import type { Painter } from './painter';
import type { Palette, Tone } from './palette';
import type { Pane } from './panes';
import type { Brush, Sheet } from './sheet';
import { Surface } from './surface';
import { SvgSheet } from './svg';
import type { Extent, View } from './viewport';

/** Pixels of a picture per CSS pixel. */
const RATIO = 2;
const LINE_HEIGHT = 28;
const INDENT = 10;
const SWATCH_WIDTH = 24;
const SWATCH_HEIGHT = 16;
const DIVIDER_WIDTH = 3;
const FONT_SIZE = 13;

/** One side as it is on screen. */
export interface PictureSide {
  readonly title: string;
  readonly width: number;
  readonly draw: (sheet: Sheet) => void;
}

export interface LegendEntry {
  readonly name: string;
  /** Colour class, see tone.ts. */
  readonly tone: number;
}

/** What stands around the sides. */
export interface PictureWords {
  readonly caption?: string;
  /** One per side. */
  readonly titles?: readonly string[];
  readonly legend?: readonly LegendEntry[];
}

/** What is on screen, and how it is to be put together. */
export interface Picture {
  readonly sides: readonly PictureSide[];
  readonly height: number;
  readonly palette: Palette;
  readonly measure: Measure;
  readonly words: PictureWords;
}

/** What the panes show, without what only helps to point at it. */
export function pictureOf(
  panes: readonly Pane[],
  painter: Painter,
  at: (side: Side) => readonly [View, Extent],
  selected: NodeRef | null,
  words: PictureWords,
): Picture {
  const sides = panes.map(({ side, surface }) => ({
    title: words.titles?.[side] ?? '',
    width: surface.width,
    draw: (sheet: Sheet) =>
      painter.drawSide(side, sheet, ...at(side), { selected, hovered: null, wanted: null }),
  }));
  const { palette, measure } = painter;
  return { sides, palette, measure, words, height: panes[0]!.surface.height };
}

export function toPng(picture: Picture): Promise<Blob> {
  const layout = layOut(picture);
  const { width, height, top, parts } = layout;
  const whole = new Surface();
  whole.place(0, width, height, RATIO);
  drawFrame(picture, layout, whole);
  for (const { x, side } of parts) {
    const part = new Surface();
    part.place(0, side.width, picture.height, RATIO);
    side.draw(part);
    whole.context.drawImage(part.canvas, x, top, part.width, part.height);
  }
  return new Promise((resolve, reject) => {
    whole.canvas.toBlob((blob) => {
      if (blob) resolve(blob);
      else reject(new Error('This browser could not make an image of this size.'));
    }, 'image/png');
  });
}

export function toSvg(picture: Picture): string {
  const layout = layOut(picture);
  const whole = new SvgSheet(layout.width, layout.height);
  drawFrame(picture, layout, whole);
  for (const [at, { x, side }] of layout.parts.entries()) {
    const part = new SvgSheet(side.width, picture.height, 'bc'[at]);
    side.draw(part);
    whole.place(part, x, layout.top);
  }
  return whole.text();
}

interface Part {
  readonly x: number;
  readonly side: PictureSide;
}

interface Layout {
  readonly width: number;
  readonly height: number;
  /** Where the sides begin and end. */
  readonly top: number;
  readonly bottom: number;
  readonly parts: readonly Part[];
  readonly legend: readonly Placed[];
}

function layOut({ sides, height, words, measure }: Picture): Layout {
  let x = 0;
  const parts = sides.map((side) => {
    const part = { x, side };
    x += side.width + DIVIDER_WIDTH;
    return part;
  });
  const width = x - DIVIDER_WIDTH;
  const lines = (words.caption ? 1 : 0) + (sides.some(({ title }) => title !== '') ? 1 : 0);
  const top = lines * LINE_HEIGHT;
  const legend = placeLegend(words.legend ?? [], measure, width);
  const rows = legend.length === 0 ? 0 : legend.at(-1)!.row + 1;
  const bottom = top + height;
  return { width, height: bottom + rows * LINE_HEIGHT, top, bottom, parts, legend };
}

/** The background, which shows between the sides, what stands above them, and the legend. */
function drawFrame(picture: Picture, layout: Layout, sheet: Sheet): void {
  const { palette, measure, words } = picture;
  const { width, height, top, bottom, parts, legend } = layout;
  sheet.clear(palette.boxStroke);
  const brush: Brush = sheet.context;
  brush.fillStyle = palette.boxes[1];
  if (top > 0) brush.fillRect(0, 0, width, Math.min(height, top - 1));
  if (height > bottom) brush.fillRect(0, bottom + 1, width, height - bottom - 1);
  brush.textBaseline = 'middle';
  const write = (text: string, weight: number, x: number, y: number, room: number) => {
    brush.fillStyle = palette.tones[0]!.text;
    brush.font = fontOf(FONT_SIZE, weight);
    const short = measure.fit(text, FONT_SIZE, weight, room - 2 * INDENT);
    brush.fillText(short, x + INDENT, y + LINE_HEIGHT / 2);
  };
  if (words.caption) write(words.caption, 600, 0, 0, width);
  for (const { x, side } of parts) {
    if (top > 0) write(side.title, 400, x, top - LINE_HEIGHT, side.width);
  }
  for (const { x, row, name, tone } of legend) {
    const y = bottom + row * LINE_HEIGHT;
    drawSwatch(brush, palette.tones[tone]!, x, y + (LINE_HEIGHT - SWATCH_HEIGHT) / 2);
    write(name, 400, x + SWATCH_WIDTH - INDENT + 6, y, Infinity);
  }
}

interface Placed extends LegendEntry {
  readonly x: number;
  readonly row: number;
}

/** Side by side as far as there is room, then on the next line. */
function placeLegend(entries: readonly LegendEntry[], measure: Measure, width: number): Placed[] {
  let x = INDENT;
  let row = 0;
  return entries.map((entry) => {
    const room = SWATCH_WIDTH + 6 + measure.width(entry.name, FONT_SIZE, 400);
    if (x > INDENT && x + room > width) {
      x = INDENT;
      row++;
    }
    const placed = { ...entry, x, row };
    x += room + 20;
    return placed;
  });
}

/** A box of this colour class, with as many ticks as its severity has. */
function drawSwatch(
  brush: Brush,
  { fill, stroke, text, ticks, dashed }: Tone,
  x: number,
  y: number,
) {
  brush.beginPath();
  brush.roundRect(x + 0.5, y + 0.5, SWATCH_WIDTH - 1, SWATCH_HEIGHT - 1, 3);
  brush.fillStyle = fill;
  brush.fill();
  brush.strokeStyle = stroke;
  brush.lineWidth = 1;
  brush.setLineDash(dashed ? [3, 2] : []);
  brush.stroke();
  brush.setLineDash([]);
  brush.fillStyle = text;
  for (let tick = 0; tick < ticks; tick++) {
    const height = 3 + 2 * tick;
    brush.fillRect(x + 4 + tick * 4, y + SWATCH_HEIGHT - 3 - height, 2.5, height);
  }
}
