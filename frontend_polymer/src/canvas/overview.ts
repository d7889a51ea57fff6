import { rowAt } from '../layout/rows';
import type { Frame } from './frame';
import { GAP } from './pyramid';
import { unitAt, yOf } from './viewport';

/** Rows lower than a few pixels: one bar per line of pixels in the colour of its worst row. */
export function drawOverview(frame: Frame): void {
  const { placer, rows, view, palette } = frame;
  const { context, height, ratio } = frame.surface;
  const pyramid = frame.pyramid();
  const end = Math.min(height, placer.snap(yOf(view, rows.height)));
  const firstLine = Math.max(0, Math.floor(yOf(view, 0) * ratio));
  let runStart = firstLine / ratio;
  let runTone = GAP;
  let runDepth = 0;
  const flush = (y: number) => {
    if (runTone === GAP || y <= runStart) return;
    const x = placer.left(runDepth);
    context.fillStyle = palette.tones[runTone]!.solid;
    context.fillRect(x, runStart, placer.right(runDepth) - x, y - runStart);
  };
  let row = rowAt(rows, unitAt(view, runStart));
  for (let line = firstLine; line / ratio < end; line++) {
    const y = line / ratio;
    const until = unitAt(view, (line + 1) / ratio);
    const next = rowAt(rows, until);
    const tone = pyramid.worst(row, Math.max(row, rows.top[next]! < until ? next : next - 1) + 1);
    const depth = rows.depth[row]!;
    if (tone !== runTone || depth !== runDepth) {
      flush(y);
      runStart = y;
      runTone = tone;
      runDepth = depth;
    }
    row = next;
  }
  flush(end);
}
