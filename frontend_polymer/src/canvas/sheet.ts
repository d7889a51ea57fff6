/** What rows are drawn on: a canvas, or text that becomes an SVG file. */
export interface Sheet {
  readonly context: Brush;
  /** In CSS pixels. */
  readonly width: number;
  readonly height: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  /** Begins a frame: from here on, units are CSS pixels. */
  clear(colour: string): void;
  /** Slanted lines, moved down by `shift`. */
  hatch(colour: string, shift: number): Paint;
  /** From a colour at `y` to nothing, so many pixels below. */
  fade(colour: string, y: number, height: number): Paint;
}

export type Paint = string | CanvasGradient | CanvasPattern;

/** The part of a canvas context that rows need. */
export interface Brush {
  fillStyle: Paint;
  strokeStyle: Paint;
  lineWidth: number;
  font: string;
  textBaseline: CanvasTextBaseline;
  beginPath(): void;
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  rect(x: number, y: number, width: number, height: number): void;
  roundRect(x: number, y: number, width: number, height: number, radii: number | number[]): void;
  fill(): void;
  stroke(): void;
  fillRect(x: number, y: number, width: number, height: number): void;
  strokeRect(x: number, y: number, width: number, height: number): void;
  fillText(text: string, x: number, y: number): void;
  setLineDash(segments: number[]): void;
  save(): void;
  clip(): void;
  restore(): void;
}

/** Distance of the lines of a hatch. */
export const HATCH_SIZE = 8;
