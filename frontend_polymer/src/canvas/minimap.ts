import type { Graph } from '../data/graph';
import type { Side } from '../generated/graph_pb';
import { rowAt, type Rows } from '../layout/rows';
import type { Palette } from './palette';
import type { Surface } from './surface';
import type { Tones } from './tone';
import { unitAt, type View } from './viewport';

export const MINIMAP_WIDTH = 44;

/** Everything that decides what the map of one side looks like. */
export interface MinimapFrame {
  readonly surface: Surface;
  readonly side: Side;
  readonly graph: Graph;
  readonly rows: Rows;
  readonly open: Uint8Array;
  readonly microStep: number;
  readonly tones: Tones;
  readonly palette: Palette;
  readonly view: View;
  readonly paneHeight: number;
  readonly selected: number;
  readonly hits: Int32Array;
}

/** The nodes of one side in execution order, folded or not, without those filtered out. */
export class Sequence {
  private readonly from: number[] = [];
  private readonly start: number[] = [];
  readonly length: number = 0;

  constructor(graph: Graph, microStep: number) {
    let end = -1;
    for (const child of graph.children(0)) {
      if (microStep >= 0 && graph.microStep[child] !== microStep) continue;
      if (child !== end) {
        this.from.push(child);
        this.start.push(this.length);
      }
      end = graph.end[child]!;
      this.length += end - child;
    }
  }

  /** The node at a place of [0, length). */
  node(place: number): number {
    const run = this.run(this.start, place);
    return (this.from[run] ?? 0) + place - (this.start[run] ?? 0);
  }

  /** The place of a node; of a filtered one, the nearest place before it. */
  place(node: number): number {
    const run = this.run(this.from, node);
    const limit = this.start[run + 1] ?? this.length;
    return Math.max(0, Math.min(limit, (this.start[run] ?? 0) + node - (this.from[run] ?? 0)));
  }

  private run(starts: number[], value: number): number {
    let run = 0;
    while (run + 1 < starts.length && starts[run + 1]! <= value) run++;
    return run;
  }
}

export function drawMinimap(frame: MinimapFrame): void {
  const { surface, palette, graph, microStep } = frame;
  surface.clear(palette.minimapBackground);
  const sequence = new Sequence(graph, microStep);
  if (sequence.length === 0) return;
  drawTones(frame, sequence);
  drawMarks(frame, sequence);
  drawView(frame, sequence);
}

/** Where a place of the sequence lies on the map. Short sequences do not fill it. */
function perPlace(height: number, length: number): number {
  return Math.min(4, height / length);
}

/** The place at a height of the map. */
export function placeAt(sequence: Sequence, y: number, height: number): number {
  const place = Math.floor(y / perPlace(height, sequence.length));
  return Math.max(0, Math.min(sequence.length - 1, place));
}

function drawTones(frame: MinimapFrame, sequence: Sequence): void {
  const { surface, palette, tones } = frame;
  const { context, width, height } = surface;
  const scale = perPlace(height, sequence.length);
  const step = Math.max(1, scale);
  for (let y = 0; y < sequence.length * scale; y += step) {
    const from = Math.floor(y / scale);
    const to = Math.min(sequence.length, Math.max(from + 1, Math.floor((y + step) / scale)));
    const first = sequence.node(from);
    const last = sequence.node(to - 1);
    context.fillStyle = palette.tones[tones.worst(first, last + 1)]!.solid;
    context.fillRect(6, y, width - 12, step);
  }
}

function drawMarks(frame: MinimapFrame, sequence: Sequence): void {
  const { surface, palette, hits, selected } = frame;
  const { context, width, height } = surface;
  const scale = perPlace(height, sequence.length);
  context.fillStyle = palette.hit;
  let drawn = -1;
  for (const hit of hits) {
    const y = Math.floor(sequence.place(hit) * scale);
    if (y !== drawn) context.fillRect(1, y, 4, 2);
    drawn = y;
  }
  if (selected < 0) return;
  context.fillStyle = palette.selection;
  const y = Math.floor(sequence.place(selected) * scale);
  context.fillRect(0, y - 1, width, 2);
}

function drawView(frame: MinimapFrame, sequence: Sequence): void {
  const { surface, palette, rows, side, view, graph, open, paneHeight } = frame;
  const { context, width, height } = surface;
  const nodes = rows.node[side];
  let first = rowAt(rows, unitAt(view, 0));
  let last = rowAt(rows, unitAt(view, paneHeight));
  while (first < last && nodes[first]! < 0) first++;
  while (last > 0 && nodes[last]! < 0) last--;
  const from = nodes[Math.min(first, last)]!;
  const to = nodes[last]!;
  if (from < 0 || to < 0) return;
  const scale = perPlace(height, sequence.length);
  const top = sequence.place(from) * scale;
  const bottom = sequence.place(open[to] === 1 ? to + 1 : graph.end[to]!) * scale;
  const tall = Math.max(6, bottom - top);
  const y = Math.min(top, height - tall);
  // What is outside is dimmed, so that the colours inside stay what they are.
  context.fillStyle = palette.minimapShade;
  context.fillRect(0, 0, width, y);
  context.fillRect(0, y + tall, width, height - y - tall);
  context.strokeStyle = palette.selection;
  context.lineWidth = 1.5;
  context.beginPath();
  context.roundRect(0.75, y + 0.75, width - 1.5, tall - 1.5, 3);
  context.stroke();
}
