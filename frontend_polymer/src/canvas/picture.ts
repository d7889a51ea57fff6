import type { Side } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import { fontOf, type Measure } from './measure';
import type { Painter } from './painter';
import type { Palette } from './palette';
import type { Pane } from './panes';
import type { Brush, Sheet } from './sheet';
import { Surface } from './surface';
import { SvgSheet } from './svg';
import type { Extent, View } from './viewport';

/** Pixels of a picture per CSS pixel. */
const RATIO = 2;
const HEADER_HEIGHT = 28;
const DIVIDER_WIDTH = 3;
const FONT_SIZE = 13;

/** One side as it is on screen. */
export interface PictureSide {
  readonly title: string;
  readonly width: number;
  readonly draw: (sheet: Sheet) => void;
}

/** What is on screen, and how it is to be put together. */
export interface Picture {
  readonly sides: readonly PictureSide[];
  readonly height: number;
  readonly palette: Palette;
  readonly measure: Measure;
}

/** What the panes show, without what only helps to point at it. */
export function pictureOf(
  panes: readonly Pane[],
  painter: Painter,
  at: (side: Side) => readonly [View, Extent],
  selected: NodeRef | null,
  titles: readonly string[],
): Picture {
  const sides = panes.map(({ side, surface }) => ({
    title: titles[side] ?? '',
    width: surface.width,
    draw: (sheet: Sheet) =>
      painter.drawSide(side, sheet, ...at(side), { selected, hovered: null, wanted: null }),
  }));
  const { palette, measure } = painter;
  return { sides, palette, measure, height: panes[0]!.surface.height };
}

export function toPng(picture: Picture): Promise<Blob> {
  const { width, height, header, parts } = layOut(picture);
  const whole = new Surface();
  whole.place(0, width, height, RATIO);
  drawFrame(picture, whole, whole.width, whole.height);
  for (const { x, side } of parts) {
    const part = new Surface();
    part.place(0, side.width, picture.height, RATIO);
    side.draw(part);
    whole.context.drawImage(part.canvas, x, header, part.width, part.height);
  }
  return new Promise((resolve, reject) => {
    whole.canvas.toBlob((blob) => {
      if (blob) resolve(blob);
      else reject(new Error('This browser could not make an image of this size.'));
    }, 'image/png');
  });
}

export function toSvg(picture: Picture): string {
  const { width, height, header, parts } = layOut(picture);
  const whole = new SvgSheet(width, height);
  drawFrame(picture, whole, width, height);
  for (const [at, { x, side }] of parts.entries()) {
    const part = new SvgSheet(side.width, picture.height, 'bc'[at]);
    side.draw(part);
    whole.place(part, x, header);
  }
  return whole.text();
}

interface Part {
  readonly x: number;
  readonly side: PictureSide;
}

function layOut({ sides, height }: Picture): {
  width: number;
  height: number;
  header: number;
  parts: Part[];
} {
  const header = sides.some(({ title }) => title !== '') ? HEADER_HEIGHT : 0;
  let x = 0;
  const parts = sides.map((side) => {
    const part = { x, side };
    x += side.width + DIVIDER_WIDTH;
    return part;
  });
  return { width: x - DIVIDER_WIDTH, height: height + header, header, parts };
}

/** The background, which shows between the sides, and the titles above them. */
function drawFrame(picture: Picture, sheet: Sheet, width: number, height: number): void {
  const { palette, measure } = picture;
  const { header, parts } = layOut(picture);
  sheet.clear(palette.boxStroke);
  const brush: Brush = sheet.context;
  if (header === 0) return;
  brush.fillStyle = palette.boxes[1];
  brush.fillRect(0, 0, width, Math.min(height, header - 1));
  brush.fillStyle = palette.tones[0]!.text;
  brush.textBaseline = 'middle';
  for (const { x, side } of parts) {
    const title = measure.fit(side.title, FONT_SIZE, 600, side.width - 20);
    brush.font = fontOf(FONT_SIZE, 600);
    brush.fillText(title, x + 10, header / 2);
  }
}
