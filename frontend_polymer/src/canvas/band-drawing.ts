import { shownNode } from '../layout/rows';
import type { Frame } from './frame';
import { fontOf } from './measure';

const MARGIN = 3;

/** A frame around the calls of a group, with what they do at its upper right corner. */
export function drawBands({
  surface,
  placer,
  rows,
  side,
  tree,
  bands,
  palette,
  measure,
}: Frame): void {
  const { context, height, width } = surface;
  const { font, radius } = placer.geometry;
  for (const { label, nodes } of bands) {
    const seen = nodes.map((node) => shownNode(tree, rows.rowOf[side], node));
    // A folded module stands for all that is in it.
    const own = seen.filter((node, at) => node === nodes[at]);
    if (own.length === 0) continue;
    const first = placer.row(rows.rowOf[side][own[0]!]!);
    const last = placer.row(rows.rowOf[side][own.at(-1)!]!);
    const [top, bottom] = [first.y - MARGIN, last.y + last.height + MARGIN];
    if (bottom < 0 || top > height) continue;
    const x = Math.min(first.x, last.x) - MARGIN;
    const right = Math.max(first.x + first.width, last.x + last.width) + MARGIN;
    context.beginPath();
    context.roundRect(x, top, right - x, bottom - top, radius + 1);
    context.strokeStyle = palette.counterpart;
    context.lineWidth = 1.5;
    context.stroke();
    if (font === 0) continue;
    const size = font * 0.85;
    const text = measure.fit(label, size, 600, (right - x) / 2);
    const room = measure.width(text, size, 600) + 10;
    // Flush right, where grouped calls show nothing: they have no error of their own.
    const left = Math.min(right, width) - room - radius;
    context.beginPath();
    context.roundRect(left, top, room, size + 5, 3);
    context.fillStyle = palette.counterpart;
    context.fill();
    context.fillStyle = palette.background;
    context.font = fontOf(size, 600);
    context.textBaseline = 'middle';
    context.fillText(text, left + 5, top + size / 2 + 3);
  }
}
