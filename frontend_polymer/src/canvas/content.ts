import { Direction, Grade } from '../generated/graph_pb';
import type { Frame } from './draw';
import type { Box, Placer } from './geometry';
import { fontOf } from './measure';
import { TONES, TONE_SEVERITY } from './tone';

/** As a colour class: nothing is known. */
const UNGRADED: number = Grade.UNGRADED;

const BAR_WIDTH = 72;
const ERROR_WIDTH = 38;
const TICKS_WIDTH = 20;
const FLAG_WIDTH = 16;
/** Below this width of a box, the columns at its right end are left out. */
const LEAST_FOR_COLUMNS = 300;

/** Order of the pieces of a distribution bar: the worst first, where the eye begins. */
const BAR_ORDER = Array.from({ length: TONES }, (_, tone) => tone).sort(
  (a, b) => TONE_SEVERITY[b]! - TONE_SEVERITY[a]!,
);

/** Where the columns at the right end of the rows begin; the same for all depths. */
interface Columns {
  readonly shown: boolean;
  readonly flag: number;
  readonly bar: number;
  readonly error: number;
  readonly ticks: number;
}

interface Item {
  readonly node: number;
  readonly box: Box;
  readonly tone: number;
  readonly isOpen: boolean;
}

/** Draws the rows themselves: fill, marks and text, one pass per colour. */
export function drawContent(frame: Frame, placer: Placer, first: number, last: number): void {
  const items = itemsOf(frame, placer, first, last);
  drawFills(frame, items);
  const { geometry } = frame;
  const columns = columnsOf(frame, placer);
  if (geometry.rowHeight >= 6) drawStrips(frame, items);
  drawHits(frame, items);
  if (geometry.font === 0) return;
  drawChevrons(frame, items);
  if (columns.shown) {
    drawBars(frame, items, columns);
    drawTicks(frame, items, columns);
  }
  drawText(frame, items, columns);
}

function itemsOf(frame: Frame, placer: Placer, first: number, last: number): Item[] {
  const { rows, side, open, tones } = frame;
  const nodes = rows.node[side];
  const items: Item[] = [];
  for (let row = first; row <= last; row++) {
    const node = nodes[row]!;
    if (node < 0) continue;
    const isOpen = open[node] === 1;
    items.push({ node, box: placer.row(row), tone: tones.of(node), isOpen });
  }
  return items;
}

function columnsOf({ geometry, graph }: Frame, placer: Placer): Columns {
  const scale = geometry.font / 13;
  // Measured from the deepest level, so that the columns are straight.
  const right = placer.right(graph.deepest) - 6;
  const left = placer.left(graph.deepest);
  const ticks = right - TICKS_WIDTH * scale;
  const error = ticks - ERROR_WIDTH * scale;
  const bar = error - (BAR_WIDTH + 6) * scale;
  const shown = geometry.hasDetails && right - left >= LEAST_FOR_COLUMNS * scale;
  return { shown, ticks, error, bar, flag: bar - FLAG_WIDTH * scale };
}

function drawFills(frame: Frame, items: Item[]): void {
  const { context, palette, geometry } = frame;
  const paths = new Map<number, Path2D>();
  for (const { box, tone } of items) {
    let path = paths.get(tone);
    if (!path) paths.set(tone, (path = new Path2D()));
    if (geometry.radius > 0) {
      path.roundRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1, geometry.radius);
    } else path.rect(box.x, box.y, box.width, box.height);
  }
  context.lineWidth = 1;
  for (const [index, path] of paths) {
    const tone = palette.tones[index]!;
    context.fillStyle = geometry.rowHeight >= 6 ? tone.fill : tone.solid;
    context.fill(path);
    if (geometry.rowHeight < 6) continue;
    context.setLineDash(tone.dashed ? [4, 3] : []);
    context.strokeStyle = tone.stroke;
    context.stroke(path);
  }
  context.setLineDash([]);
}

/** A folded module shows the worst that it hides at its left edge. */
function drawStrips(frame: Frame, items: Item[]): void {
  const { context, graph, palette, tones, geometry } = frame;
  const width = Math.max(2, Math.min(5, geometry.rowHeight / 6));
  for (const { node, box, isOpen } of items) {
    if (isOpen || !graph.hasChildren(node)) continue;
    const worst = tones.worst(node + 1, graph.end[node]!);
    if (worst === UNGRADED) continue;
    context.fillStyle = palette.tones[worst]!.solid;
    context.beginPath();
    const { radius } = geometry;
    context.roundRect(box.x, box.y, width, box.height, [radius, 0, 0, radius]);
    context.fill();
  }
}

/** A bar left of each search hit; hollow beside a folded module that hides some. */
function drawHits(frame: Frame, items: Item[]): void {
  const { context, hits, graph, palette } = frame;
  if (hits.length === 0) return;
  context.fillStyle = context.strokeStyle = palette.hit;
  context.lineWidth = 1;
  for (const { node, box, isOpen } of items) {
    const at = lowerBound(hits, node);
    if (at < hits.length && node === hits[at]) context.fillRect(box.x - 5, box.y, 3, box.height);
    else if (!isOpen && at < hits.length && hits[at]! < graph.end[node]!) {
      context.strokeRect(box.x - 4.5, box.y + 0.5, 2, box.height - 1);
    }
  }
}

function drawChevrons(frame: Frame, items: Item[]): void {
  const { context, graph, palette, geometry } = frame;
  const size = geometry.font * 0.28;
  for (const { node, box, tone, isOpen } of items) {
    if (!graph.hasChildren(node)) continue;
    const x = box.x + chevronRoom(geometry.font) * 0.58;
    const y = box.y + box.height / 2;
    context.beginPath();
    if (isOpen) {
      context.moveTo(x - size, y - size * 0.5);
      context.lineTo(x, y + size * 0.6);
      context.lineTo(x + size, y - size * 0.5);
    } else {
      context.moveTo(x - size * 0.5, y - size);
      context.lineTo(x + size * 0.6, y);
      context.lineTo(x - size * 0.5, y + size);
    }
    context.strokeStyle = palette.tones[tone]!.quiet;
    context.lineWidth = 1.5;
    context.stroke();
  }
}

/** Width of the part of a module's row that folds and unfolds it on a click. */
export function chevronRoom(font: number): number {
  return font * 1.55;
}

/** How the grades below a module are distributed. */
function drawBars(frame: Frame, items: Item[], columns: Columns): void {
  const { context, graph, palette, tones, geometry } = frame;
  const width = (BAR_WIDTH * geometry.font) / 13;
  const height = Math.max(4, Math.round(geometry.font * 0.5));
  for (const { node, box } of items) {
    if (!graph.hasChildren(node)) continue;
    const counts = tones.count(node + 1, graph.end[node]!);
    const total = graph.end[node]! - node - 1;
    if (total === counts[Grade.UNGRADED]! + counts[Grade.OK]!) continue;
    const y = Math.round(box.y + (box.height - height) / 2);
    let x = columns.bar;
    context.save();
    context.beginPath();
    context.roundRect(x, y, width, height, height / 2);
    context.clip();
    for (const [tone, pixels] of shares(counts, total, width)) {
      context.fillStyle = palette.tones[tone]!.solid;
      context.fillRect(x, y, pixels, height);
      x += pixels;
    }
    context.restore();
    context.beginPath();
    context.roundRect(columns.bar, y, width, height, height / 2);
    context.strokeStyle = palette.boxStroke;
    context.lineWidth = 0.75;
    context.stroke();
  }
}

/** Splits a width by counts; whatever is there at all gets two pixels, so that it can be seen. */
export function shares(counts: number[], total: number, width: number): [number, number][] {
  const present = BAR_ORDER.filter((tone) => counts[tone]! > 0);
  const free = width - 2 * present.length;
  return present.map((tone) => [tone, 2 + (free * counts[tone]!) / total]);
}

/** Severity as rising ticks, and overflow as stacked arrows. */
function drawTicks(frame: Frame, items: Item[], columns: Columns): void {
  const { context, graph, palette, geometry } = frame;
  const unit = geometry.font / 13;
  for (const { node, box, tone } of items) {
    const { ticks, text } = palette.tones[tone]!;
    const base = Math.round(box.y + box.height / 2 + 5 * unit);
    context.fillStyle = text;
    for (let tick = 0; tick < ticks; tick++) {
      const height = (4 + 2 * tick) * unit;
      context.fillRect(columns.ticks + (2 + tick * 4.5) * unit, base - height, 2.5 * unit, height);
    }
    const level = graph.overflow[node]!;
    if (level > 0) drawOverflow(frame, columns.flag + 6 * unit, box, level, text);
  }
}

function drawOverflow(frame: Frame, x: number, box: Box, level: number, colour: string): void {
  const { context, geometry } = frame;
  const unit = geometry.font / 13;
  const middle = box.y + box.height / 2;
  context.strokeStyle = colour;
  context.lineWidth = 1.5 * unit;
  context.beginPath();
  for (let arrow = 0; arrow < level; arrow++) {
    const y = middle + ((level - 1) * 2 - arrow * 4 + 1) * unit;
    context.moveTo(x - 4 * unit, y + 2 * unit);
    context.lineTo(x, y - 2 * unit);
    context.lineTo(x + 4 * unit, y + 2 * unit);
  }
  context.stroke();
}

interface Piece {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly colour: string;
  readonly weight: number;
}

const REGULAR = 400;
const STRONG = 600;

function drawText(frame: Frame, items: Item[], columns: Columns): void {
  const pieces: Piece[] = [];
  for (const item of items) addText(frame, item, columns, pieces);
  const { context, geometry } = frame;
  context.textBaseline = 'middle';
  // Setting a font costs more than drawing a word: one pass per weight.
  for (const weight of [STRONG, REGULAR]) {
    context.font = fontOf(geometry.font, weight);
    for (const piece of pieces) {
      if (piece.weight !== weight) continue;
      context.fillStyle = piece.colour;
      context.fillText(piece.text, piece.x, piece.y);
    }
  }
}

function addText(frame: Frame, item: Item, columns: Columns, pieces: Piece[]): void {
  const { graph, geometry, measure, palette, width } = frame;
  const { node, box, tone } = item;
  const { font } = geometry;
  const { text, quiet } = palette.tones[tone]!;
  const isModule = graph.hasChildren(node);
  const weight = isModule ? STRONG : REGULAR;
  const y = box.y + box.height / 2 + font * 0.06;
  const left = box.x + (isModule ? chevronRoom(font) : font * 0.6);
  // A box scrolled out to the left keeps its name in sight.
  let x = Math.max(left, Math.min(4, box.x + box.width - 40));
  const end = Math.min(columns.shown ? columns.flag : box.x + box.width - 6, width);
  const add = (part: string, room: number, colour: string, partWeight: number) => {
    const shown = measure.fit(part, font, partWeight, room);
    if (shown === '') return;
    pieces.push({ text: shown, x, y, colour, weight: partWeight });
    x += measure.width(shown, font, partWeight);
  };

  const { title, type } = graph.label(node);
  const space = font * 0.3;
  const call = callText(frame, node);
  const details = geometry.hasDetails ? [type === '' ? '' : `· ${type}`, call] : [];
  const titleWidth = measure.width(title, font, weight);
  let room = end - x - titleWidth;
  add(title, end - x, text, weight);
  for (const [index, detail] of details.entries()) {
    if (detail === '') continue;
    const lead = index === 0 ? space : space * 2.5;
    const needed = lead + measure.width(detail, font, REGULAR);
    if (needed > room) continue;
    room -= needed;
    x += lead;
    add(detail, needed, quiet, REGULAR);
  }

  const error = graph.error[node]!;
  if (columns.shown && error > 0) {
    const shown = errorText(error);
    const right = columns.ticks - font * 0.2;
    const x = right - measure.width(shown, font, REGULAR);
    pieces.push({ text: shown, x, y, colour: text, weight: REGULAR });
  }
}

/** `forward 0`, with an arrow against the stream for backward. */
function callText({ graph }: Frame, node: number): string {
  const direction = graph.directionOf(node);
  if (direction === Direction.NONE) return '';
  const call = graph.call[node]!;
  return direction === Direction.BACKWARD ? `← backward ${call}` : `forward ${call}`;
}

/** The precision index in the width of the column; what rounds to nothing says so. */
export function errorText(error: number): string {
  if (error >= 0.9995) return '1';
  if (error < 0.0005) return '<0.001';
  return error.toFixed(3);
}

function lowerBound(sorted: Int32Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
