import { Mark } from '../data/colouring';
import { lowerBound } from '../data/sorted';
import { Grade } from '../generated/graph_pb';
import type { Frame } from './frame';
import type { Box } from './geometry';
import {
  BAR_WIDTH,
  chevronRoom,
  columnsOf,
  hasBar,
  overflowOf,
  type Columns,
  type Item,
} from './items';
import { HATCH_SIZE, type Brush } from './sheet';
import { drawText } from './text';
import { isCalm, TONES, TONE_SEVERITY } from './tone';

/** Order of the pieces of a distribution bar: the worst first, where the eye begins. */
const BAR_ORDER = Array.from({ length: TONES }, (_, tone) => tone).sort(
  (a, b) => TONE_SEVERITY[b]! - TONE_SEVERITY[a]!,
);

/** Width of the smallest piece of a distribution bar. */
const NARROWEST = 2;

/** Rows lower than this are plain bars of colour. */
const OUTLINED_ROW = 13;

/** Draws rows: fill, marks and text, one pass per colour. */
export function drawItems(frame: Frame, items: Item[]): void {
  drawFills(frame, items);
  drawMarks(frame, items);
  drawStrips(frame, items);
  drawHits(frame, items);
  drawSuspects(frame, items);
  if (frame.placer.geometry.font > 0) {
    const columns = columnsOf(frame);
    drawChevrons(frame, items);
    if (columns.areShown) {
      drawBars(frame, items, columns);
      drawTicks(frame, items, columns);
    }
    drawText(frame, items, columns);
  }
  if (frame.picks) drawPicks(frame, items);
}

/** Nodes without match in an outline, what neither is nor hides one under a veil. */
function drawPicks({ surface, graph, tree, palette, placer }: Frame, items: Item[]): void {
  const { context } = surface;
  const { radius } = placer.geometry;
  context.strokeStyle = palette.selection;
  context.fillStyle = palette.veil;
  context.lineWidth = 2;
  for (const { id, box, isOpen, from, to } of items) {
    context.beginPath();
    context.roundRect(box.x + 1, box.y + 1, box.width - 2, box.height - 2, radius);
    if (!tree.isSeries(id) && graph.gradeOf(id) === Grade.UNMATCHED) context.stroke();
    else if (isOpen || graph.rollup.grade(Grade.UNMATCHED, from, to) === 0) context.fill();
  }
}

function drawFills({ surface, palette, placer }: Frame, items: Item[]): void {
  const { context } = surface;
  const { radius, rowHeight } = placer.geometry;
  const isOutlined = rowHeight >= OUTLINED_ROW;
  const boxes = new Map<number, Box[]>();
  for (const { box, tone } of items) {
    const same = boxes.get(tone);
    if (same) same.push(box);
    else boxes.set(tone, [box]);
  }
  context.lineWidth = 1;
  for (const [index, same] of boxes) {
    const tone = palette.tones[index]!;
    context.beginPath();
    for (const { x, y, width, height } of same) {
      if (isOutlined) context.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, radius);
      else context.rect(x, y, width, height);
    }
    context.fillStyle = isOutlined ? tone.fill : tone.solid;
    context.fill();
    if (!isOutlined) continue;
    context.setLineDash(tone.dashed ? [4, 3] : []);
    context.strokeStyle = tone.stroke;
    context.stroke();
  }
  context.setLineDash([]);
}

/** What the documented error makes too much of is hatched; what it hides has a notch. */
function drawMarks({ surface, palette, placer, tones }: Frame, items: Item[]): void {
  const { context } = surface;
  const { radius, rowHeight } = placer.geometry;
  if (rowHeight < OUTLINED_ROW) return;
  for (const { id, node, box, isOpen } of items) {
    const mark = id === node || !isOpen ? tones.mark(node) : Mark.NONE;
    if (mark === Mark.NONE) continue;
    context.beginPath();
    if (mark === Mark.NEAR_ZERO) {
      context.roundRect(box.x + 1, box.y + 1, box.width - 2, box.height - 2, radius);
      context.fillStyle = surface.hatch(palette.nearZero, box.y % HATCH_SIZE);
      context.fill();
      continue;
    }
    const size = Math.min(9, rowHeight / 2);
    const right = box.x + box.width - 0.5;
    context.moveTo(right - size, box.y + 0.5);
    context.lineTo(right, box.y + 0.5);
    context.lineTo(right, box.y + 0.5 + size);
    context.fillStyle = palette.tones[Grade.SEVERE]!.solid;
    context.fill();
  }
}

/** A folded module shows the worst that it hides at its left edge. */
function drawStrips({ surface, palette, tones, placer }: Frame, items: Item[]): void {
  const { context } = surface;
  const { radius, rowHeight } = placer.geometry;
  const width = Math.max(3, Math.min(5, rowHeight / 5));
  for (const { from, to, box, isOpen, hasChildren } of items) {
    if (isOpen || !hasChildren) continue;
    const worst = tones.worst(from, to);
    if (isCalm(worst)) continue;
    context.fillStyle = palette.tones[worst]!.solid;
    context.beginPath();
    context.roundRect(box.x, box.y, width, box.height, [radius, 0, 0, radius]);
    context.fill();
  }
}

/** A bar left of each search hit; hollow beside a folded module that hides some. */
function drawHits({ surface, hits, palette }: Frame, items: Item[]): void {
  if (hits.length === 0) return;
  const { context } = surface;
  context.fillStyle = context.strokeStyle = palette.hit;
  context.lineWidth = 1;
  for (const { id, box, isOpen, from, to } of items) {
    if (hits[lowerBound(hits, id)] === id) context.fillRect(box.x - 5, box.y, 3, box.height);
    else if (!isOpen && (hits[lowerBound(hits, from)] ?? to) < to) {
      context.strokeRect(box.x - 4.5, box.y + 0.5, 2, box.height - 1);
    }
  }
}

/** A target left of who may be to blame, off its name; hollow where a folded module hides it. */
function drawSuspects({ surface, suspects, palette, placer }: Frame, items: Item[]): void {
  if (suspects.length === 0 || placer.geometry.rowHeight < OUTLINED_ROW) return;
  const { context } = surface;
  const radius = Math.min(6, placer.geometry.rowHeight / 4);
  context.lineWidth = 1.5;
  for (const { id, box, isOpen, from, to } of items) {
    const isOne = suspects[lowerBound(suspects, id)] === id;
    const hides = !isOpen && (suspects[lowerBound(suspects, from)] ?? to) < to;
    if (!isOne && !hides) continue;
    const x = box.x - (2 / 3) * radius;
    const y = box.y + box.height / 2;
    context.beginPath();
    context.roundRect(x - radius, y - radius, 2 * radius, 2 * radius, radius);
    context.fillStyle = isOne ? palette.suspect : palette.background;
    context.fill();
    context.strokeStyle = isOne ? palette.background : palette.suspect;
    context.stroke();
    if (!isOne) continue;
    context.beginPath();
    context.roundRect(x - radius / 3, y - radius / 3, radius / 1.5, radius / 1.5, radius / 3);
    context.fillStyle = palette.background;
    context.fill();
  }
}

function drawChevrons({ surface, palette, placer }: Frame, items: Item[]): void {
  const { context } = surface;
  const { font } = placer.geometry;
  const size = font * 0.28;
  context.lineWidth = 1.5;
  for (const { box, tone, isOpen, hasChildren } of items) {
    if (!hasChildren) continue;
    const x = box.x + chevronRoom(font) * 0.58;
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
    context.stroke();
  }
}

/** How the grades below a module are distributed. */
function drawBars(frame: Frame, items: Item[], columns: Columns): void {
  const { surface, palette, tones, placer } = frame;
  const { context } = surface;
  const { font } = placer.geometry;
  const width = (BAR_WIDTH * font) / 13;
  const height = Math.max(4, Math.round(font * 0.5));
  for (const item of items) {
    if (!hasBar(frame, item)) continue;
    const { from, to, box, tone } = item;
    const y = Math.round(box.y + (box.height - height) / 2);
    let x = columns.bar;
    context.save();
    context.beginPath();
    context.roundRect(x, y, width, height, height / 2);
    context.clip();
    const counts = tones.count(from, to);
    for (const [part, pixels] of shares(counts, width, NARROWEST)) {
      context.fillStyle = palette.tones[part]!.solid;
      context.fillRect(x, y, pixels, height);
      x += pixels;
    }
    context.restore();
    context.beginPath();
    context.roundRect(columns.bar, y, width, height, height / 2);
    context.strokeStyle = palette.tones[tone]!.stroke;
    context.lineWidth = 1;
    context.stroke();
  }
}

/** Splits a width by counts; whatever is there at all gets `least` pixels, so that it can be seen. */
export function shares(counts: number[], width: number, least: number): [number, number][] {
  const present = BAR_ORDER.filter((tone) => counts[tone]! > 0);
  const total = present.reduce((sum, tone) => sum + counts[tone]!, 0);
  const assured = Math.min(least, width / present.length);
  const free = width - assured * present.length;
  return present.map((tone) => [tone, assured + (free * counts[tone]!) / total]);
}

/** Severity as rising ticks, and overflow as stacked arrows. */
function drawTicks(frame: Frame, items: Item[], columns: Columns): void {
  const { surface, palette, placer } = frame;
  const unit = placer.geometry.font / 13;
  for (const item of items) {
    const { box, tone } = item;
    const { ticks, text } = palette.tones[tone]!;
    const base = Math.round(box.y + box.height / 2 + 5 * unit);
    surface.context.fillStyle = text;
    for (let tick = 0; tick < ticks; tick++) {
      const height = (4 + 2 * tick) * unit;
      const x = columns.ticks + (2 + tick * 4.5) * unit;
      surface.context.fillRect(x, base - height, 2.5 * unit, height);
    }
    const level = overflowOf(frame, item);
    if (level === 0) continue;
    const middle = box.y + box.height / 2;
    drawArrows(surface.context, columns.flag + 7 * unit, middle, unit, level, text);
  }
}

function drawArrows(
  context: Brush,
  x: number,
  middle: number,
  unit: number,
  count: number,
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5 * unit;
  context.beginPath();
  for (let arrow = 0; arrow < count; arrow++) {
    const y = middle + ((count - 1) * 2 - arrow * 4) * unit;
    context.moveTo(x - 4 * unit, y + 2 * unit);
    context.lineTo(x, y - 2 * unit);
    context.lineTo(x + 4 * unit, y + 2 * unit);
  }
  context.stroke();
}
