import { rowAt, shownNode } from '../layout/rows';
import { Side } from '../generated/graph_pb';
import { drawBands } from './band-drawing';
import { drawItems } from './content';
import type { Frame } from './frame';
import { itemOf, itemsOf } from './items';
import { fontOf } from './measure';
import { drawOverview } from './overview';
import { stickyRows } from './sticky';
import { HATCH_SIZE } from './sheet';
import { drawTrail } from './trail';
import { unitAt, yOf } from './viewport';

/**
 * Draws one pane: a side, or both as one tree. The cost depends on the pixels of the pane, not on
 * the size of the graph.
 */
export function drawPane(...sides: readonly [Frame, ...Frame[]]): void {
  const [frame] = sides;
  const { surface, placer, rows, view, palette } = frame;
  surface.clear(palette.background);
  if (!placer.geometry.hasBoxes) sides.forEach(drawOverview);
  else {
    const first = rowAt(rows, unitAt(view, 0));
    const last = rowAt(rows, unitAt(view, surface.height));
    for (const side of sides) drawModules(side, first, last);
    if (!frame.unified) drawGaps(frame, first, last);
    for (const side of sides) drawItems(side, itemsOf(side, first, last));
  }
  drawHover(frame);
  sides.forEach(drawBands);
  drawTrail(frame);
  for (const side of sides) {
    drawOutline(side, side.counterpart, palette.counterpart);
    drawOutline(side, side.selected, palette.selection);
  }
  drawLack(frame);
  sides.forEach(drawSticky);
}

/** Where what is selected on the other side should stand on this one. */
function drawLack({ surface, placer, rows, side, palette, lacking, facts, measure }: Frame): void {
  const { geometry } = placer;
  if (lacking < 0 || rows.node[side][lacking]! >= 0 || !geometry.hasBoxes) return;
  const { context } = surface;
  const box = placer.row(lacking);
  context.strokeStyle = palette.selection;
  context.lineWidth = 2;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.roundRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2, geometry.radius + 1);
  context.stroke();
  context.setLineDash([]);
  if (geometry.font === 0) return;
  const words = facts.words.only[side === Side.NPU ? Side.BENCH : Side.NPU];
  context.fillStyle = palette.selection;
  context.textBaseline = 'middle';
  context.font = fontOf(geometry.font, 400);
  const shown = measure.fit(words, geometry.font, 400, box.width - 2 * geometry.font);
  context.fillText(shown, box.x + geometry.font, box.y + box.height / 2);
}

/** The modules around the uppermost rows, over what is scrolled beneath them. */
function drawSticky(frame: Frame): void {
  const { surface, placer, rows, side, open, palette } = frame;
  const { context } = surface;
  const { gap, rowHeight } = placer.geometry;
  // The outer ones last: one that is pushed out disappears behind them.
  for (const [place, { row, box }] of stickyRows(rows, placer, surface.height)
    .reverse()
    .entries()) {
    const node = rows.node[side][row]!;
    const isMissing = node < 0 && rows.through[row] === 1;
    if (!isMissing && (node < 0 || open[node] !== 1)) continue;
    context.fillStyle = palette.boxes[(rows.depth[rows.parent[row]!]! % 2) as 0 | 1];
    const margin = Math.ceil(placer.geometry.indent / 3);
    const [left, width] = [box.x - margin, box.width + 2 * margin];
    context.fillRect(left, box.y - gap, width, rowHeight + gap);
    if (place === 0) drawShadow(frame, left, box.y + rowHeight, width);
    if (!isMissing) drawItems(frame, [itemOf(frame, node, row, box)]);
  }
}

/** Where the other side has rows that this one lacks. */
function drawGaps(frame: Frame, first: number, last: number): void {
  const { placer, rows, side, palette } = frame;
  const { context } = frame.surface;
  const nodes = rows.node[side];
  context.beginPath();
  for (let row = first; row <= last;) {
    if (nodes[row]! >= 0) {
      row++;
      continue;
    }
    const box = placer.row(row);
    const depth = rows.depth[row]!;
    let bottom = box.y + box.height;
    const isGap = (at: number) => nodes[at]! < 0 && rows.through[at] === 0;
    if (!isGap(row)) row++;
    else
      for (; row <= last && isGap(row) && rows.depth[row]! >= depth; row++) {
        const below = rows.depth[row] === depth ? placer.block(row) : placer.row(row);
        bottom = Math.max(bottom, below.y + below.height);
      }
    context.roundRect(box.x, box.y, box.width, bottom - box.y, placer.geometry.radius);
  }
  context.fillStyle = palette.gap;
  context.fill();
  // The lines scroll along.
  context.fillStyle = frame.surface.hatch(palette.gapHatch, yOf(frame.view, 0) % HATCH_SIZE);
  context.fill();
}

/** The boxes of unfolded modules, outermost first. */
function drawModules(frame: Frame, first: number, last: number): void {
  const { placer, rows, side, open, palette } = frame;
  const { context, height } = frame.surface;
  const { radius } = placer.geometry;
  const nodes = rows.node[side];
  const around: number[] = [];
  for (let row = rows.parent[first]!; row >= 0; row = rows.parent[row]!) around.push(row);
  around.reverse();
  for (let row = first; row <= last; row++) around.push(row);
  context.strokeStyle = palette.boxStroke;
  context.lineWidth = 1;
  for (const row of around) {
    const node = nodes[row]!;
    if (node < 0 || open[node] !== 1) continue;
    const box = placer.block(row);
    // What lies far outside the pane is cut: strokes of a million pixels cost time.
    const top = Math.max(box.y, -50);
    const bottom = Math.min(box.y + box.height, height + 50);
    context.beginPath();
    context.roundRect(box.x + 0.5, top + 0.5, box.width - 1, bottom - top - 1, radius);
    context.fillStyle = palette.boxes[(rows.depth[row]! % 2) as 0 | 1];
    context.fill();
    context.stroke();
  }
}

function drawHover(frame: Frame): void {
  const { placer, hover, palette, rows } = frame;
  const { context, width } = frame.surface;
  const { geometry } = placer;
  if (hover < 0 || hover >= rows.count || !geometry.hasBoxes) return;
  const { y, height } = placer.row(hover);
  context.fillStyle = palette.hover;
  context.fillRect(0, y - geometry.gap / 2, width, height + geometry.gap);
}

function drawShadow({ surface, palette }: Frame, x: number, y: number, width: number): void {
  const { context } = surface;
  context.fillStyle = surface.fade(palette.shadow, y, 5);
  context.fillRect(x, y, width, 5);
}

/** Outlines a node, or the folded module that hides it. */
function drawOutline(frame: Frame, node: number, colour: string): void {
  if (node < 0) return;
  const { placer, rows, side, tree } = frame;
  const { context } = frame.surface;
  const { geometry } = placer;
  const shown = shownNode(tree, rows.rowOf[side], node);
  if (shown < 0) return;
  const box = placer.row(rows.rowOf[side][shown]!);
  const width = geometry.hasBoxes ? 2 : 1.5;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(shown === node ? [] : [6, 4]);
  context.beginPath();
  const height = Math.max(3, box.height);
  context.roundRect(box.x - 1, box.y - 1, box.width + 2, height + 2, geometry.radius + 1);
  context.stroke();
  context.setLineDash([]);
}
