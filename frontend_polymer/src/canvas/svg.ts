import { FONT_FAMILY } from './measure';
import { HATCH_SIZE, type Brush, type Sheet } from './sheet';

/** Of the font size, from the middle of a line of text down to its baseline. */
const BASELINE = 0.35;

/** Writes what is drawn as an SVG file: shapes as shapes, text as text. */
export class SvgSheet implements Sheet, Brush {
  readonly context = this;
  readonly ratio = 1;
  fillStyle = '#000000';
  strokeStyle = '#000000';
  lineWidth = 1;
  font = '';
  /** The only one that rows use. */
  textBaseline: CanvasTextBaseline = 'middle';
  private readonly body: string[] = [];
  private readonly definitions: string[] = [];
  private path = '';
  private dash = '';
  private clipping = '';

  /** `prefix` keeps the names of definitions apart when sheets are put together. */
  constructor(
    readonly width: number,
    readonly height: number,
    private readonly prefix = 'a',
  ) {}

  /** A complete file, or a part to `place` in another. */
  text(x = 0, y = 0): string {
    const { width, height } = this;
    const place = attributes({ x, y, width, height, viewBox: `0 0 ${width} ${height}` });
    const family = attributes({ 'font-family': FONT_FAMILY });
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" overflow="hidden"${place}${family}>\n` +
      `<defs>${this.definitions.join('')}</defs>\n${this.body.join('\n')}\n</svg>`
    );
  }

  place(part: SvgSheet, x: number, y: number): void {
    this.body.push(part.text(x, y));
  }

  clear(colour: string): void {
    this.fillStyle = colour;
    this.fillRect(0, 0, this.width, this.height);
  }

  hatch(colour: string, shift: number): string {
    const size = HATCH_SIZE;
    const lines = [-size, 0, size].map((x) => `M${x - 1} ${size + 1}L${x + size + 1} -1`).join('');
    const tile = attributes({
      ...{ width: size, height: size, patternUnits: 'userSpaceOnUse' },
      patternTransform: `translate(0 ${round(shift)})`,
    });
    const stroke = attributes({ d: lines, ...paint('stroke', colour) });
    return this.define('pattern', `${tile}><path${stroke}/></pattern>`);
  }

  fade(colour: string, y: number, height: number): string {
    const line = { x1: 0, x2: 0, y1: y, y2: y + height, gradientUnits: 'userSpaceOnUse' };
    const { 'stop-color': stop, 'stop-color-opacity': opacity = 1 } = paint('stop-color', colour);
    const first = attributes({ 'stop-color': stop!, 'stop-opacity': opacity });
    const last = attributes({ offset: 1, 'stop-color': stop!, 'stop-opacity': 0 });
    const stops = `<stop${first}/><stop${last}/>`;
    return this.define('linearGradient', `${attributes(line)}>${stops}</linearGradient>`);
  }

  beginPath(): void {
    this.path = '';
  }

  moveTo(x: number, y: number): void {
    this.path += `M${round(x)} ${round(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${round(x)} ${round(y)}`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.path += `M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}z`;
  }

  roundRect(x: number, y: number, width: number, height: number, radii: number | number[]): void {
    const most = Math.max(0, Math.min(width, height) / 2);
    const four = typeof radii === 'number' ? [radii, radii, radii, radii] : radii;
    const [a, b, c, d] = four.map((radius) => Math.min(radius, most)) as [
      number,
      number,
      number,
      number,
    ];
    const arc = (radius: number, dx: number, dy: number) =>
      `a${round(radius)} ${round(radius)} 0 0 1 ${round(dx)} ${round(dy)}`;
    this.path +=
      `M${round(x + a)} ${round(y)}h${round(width - a - b)}${arc(b, b, b)}` +
      `v${round(height - b - c)}${arc(c, -c, c)}h${round(c + d - width)}${arc(d, -d, -d)}` +
      `v${round(d + a - height)}${arc(a, a, -a)}z`;
  }

  fill(): void {
    if (this.path !== '') this.element('path', { d: this.path, ...paint('fill', this.fillStyle) });
  }

  stroke(): void {
    if (this.path !== '') this.element('path', { d: this.path, fill: 'none', ...this.outline() });
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    if (width <= 0 || height <= 0) return;
    this.element('rect', { x, y, width, height, ...paint('fill', this.fillStyle) });
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.element('rect', { x, y, width, height, fill: 'none', ...this.outline() });
  }

  fillText(text: string, x: number, y: number): void {
    const [weight = '400', size = '13px'] = this.font.split(' ');
    const pixels = parseFloat(size);
    const place = { x, y: y + pixels * BASELINE, 'font-size': pixels, 'font-weight': weight };
    this.element('text', { ...place, ...paint('fill', this.fillStyle) }, escaped(text));
  }

  setLineDash(segments: number[]): void {
    this.dash = segments.join(' ');
  }

  save(): void {
    // Only clipping is ever taken back.
  }

  clip(): void {
    this.clipping = this.define('clipPath', `><path${attributes({ d: this.path })}/></clipPath>`);
  }

  restore(): void {
    this.clipping = '';
  }

  private outline(): Attributes {
    return {
      ...paint('stroke', this.strokeStyle),
      'stroke-width': this.lineWidth,
      ...(this.dash === '' ? {} : { 'stroke-dasharray': this.dash }),
    };
  }

  private element(name: string, values: Attributes, content = ''): void {
    const all = this.clipping === '' ? values : { ...values, 'clip-path': this.clipping };
    const end = content === '' ? '/>' : `>${content}</${name}>`;
    this.body.push(`<${name}${attributes(all)}${end}`);
  }

  private define(name: string, rest: string): string {
    const id = `${this.prefix}${this.definitions.length}`;
    this.definitions.push(`<${name} id="${id}"${rest}`);
    return `url(#${id})`;
  }
}

type Attributes = Record<string, string | number>;

function attributes(values: Attributes): string {
  return Object.entries(values)
    .map(
      ([name, value]) => ` ${name}="${typeof value === 'number' ? round(value) : escaped(value)}"`,
    )
    .join('');
}

/** A colour and its opacity apart: not every program that shows SVG knows rgba(). */
function paint(name: string, colour: string): Attributes {
  const parts = /^rgba\((.*),\s*([\d.]+)\)$/.exec(colour);
  if (!parts) return { [name]: colour };
  return { [name]: `rgb(${parts[1]})`, [`${name}-opacity`]: parts[2]! };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  // What XML cannot hold at all is left out.
  // eslint-disable-next-line no-control-regex
  const legal = text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Surrogate}/gu, '');
  return legal.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}
