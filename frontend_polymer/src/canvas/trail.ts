import { shownNode } from '../layout/rows';
import type { Frame } from './frame';
import type { Box } from './geometry';

/** How far the line runs left of the boxes. */
const GUTTER = 7;
const DOT = 3;

/** The way of what is wrong as a line from box to box; folded modules stand for what they hide. */
export function drawTrail({ surface, placer, rows, side, tree, trail, palette }: Frame): void {
  if (trail.length < 2) return;
  const { context, height } = surface;
  const boxes: Box[] = [];
  let last = -1;
  for (const node of trail) {
    const shown = shownNode(tree, rows.rowOf[side], node);
    if (shown < 0 || shown === last) continue;
    last = shown;
    boxes.push(placer.row(rows.rowOf[side][shown]!));
  }
  const stops = boxes.map(({ x, y, height: tall }) => ({ x, y: y + tall / 2 }));
  context.strokeStyle = context.fillStyle = palette.suspect;
  context.lineWidth = 2;
  context.beginPath();
  for (const [at, stop] of stops.entries()) {
    const next = stops[at + 1];
    if (!next) break;
    if (Math.max(stop.y, next.y) < 0 || Math.min(stop.y, next.y) > height) continue;
    // What lies far outside the pane is cut: strokes of a million pixels cost time.
    const [from, to] = [within(stop.y, height), within(next.y, height)];
    const x = Math.min(stop.x, next.x) - GUTTER;
    context.moveTo(stop.x, from);
    context.lineTo(x, from);
    context.lineTo(x, to);
    context.lineTo(next.x, to);
  }
  context.stroke();
  context.beginPath();
  for (const { x, y } of stops) {
    if (y > -DOT && y < height + DOT) context.roundRect(x - DOT, y - DOT, 2 * DOT, 2 * DOT, DOT);
  }
  context.fill();
}

function within(y: number, height: number): number {
  return Math.max(-50, Math.min(height + 50, y));
}
