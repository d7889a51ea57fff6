import type { Graph } from '../data/graph';
import type { Side } from '../generated/graph_pb';
import { lowerBound } from '../data/sorted';
import { rowAt, type Rows } from '../layout/rows';
import type { Tree } from '../layout/tree';
import { shares } from './content';
import type { Palette } from './palette';
import type { Surface } from './surface';
import type { Tones } from './tone';
import { unitAt, type View } from './viewport';

export const MINIMAP_WIDTH = 44;
/** Height of what is drawn at once, so that a single bad node among many can be seen. */
const LINE = 2;
/** Free room at either side. */
const EDGE = 6;
const NARROWEST = 5;

/** Everything that decides what the map of one side looks like. */
export interface MinimapFrame {
  readonly surface: Surface;
  readonly side: Side;
  readonly graph: Graph;
  readonly tree: Tree;
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
    return Math.max(0, lowerBound(starts, value + 1) - 1);
  }
}

export function drawMinimap(frame: MinimapFrame): void {
  const { surface, palette } = frame;
  const { context, width, height } = surface;
  surface.clear(palette.minimapBackground);
  const { sequence, canvas } = pictureOf(frame);
  if (sequence.length === 0) return;
  context.drawImage(canvas, 0, 0, width, height);
  drawMarks(frame, sequence);
  drawView(frame, sequence);
}

interface Picture {
  readonly key: string;
  readonly sequence: Sequence;
  readonly canvas: HTMLCanvasElement;
}

const pictures = new WeakMap<Tones, Picture>();

/** The colours of all nodes, drawn once and kept until something about them changes. */
function pictureOf(frame: MinimapFrame): Picture {
  const { surface, graph, tones, palette, microStep } = frame;
  const { width, height, ratio } = surface;
  const key = [width, height, ratio, microStep, palette.background].join(' ');
  let picture = pictures.get(tones);
  if (picture?.key !== key) {
    const canvas = document.createElement('canvas');
    canvas.width = surface.canvas.width;
    canvas.height = surface.canvas.height;
    const context = canvas.getContext('2d')!;
    context.scale(ratio, ratio);
    picture = { key, canvas, sequence: new Sequence(graph, microStep) };
    drawTones(context, frame, picture.sequence);
    pictures.set(tones, picture);
  }
  return picture;
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

/** What is drawn at once: a line of pixels and the nodes it stands for. */
function* linesOf(
  sequence: Sequence,
  height: number,
): Generator<{ y: number; tall: number; first: number; last: number }> {
  const scale = perPlace(height, sequence.length);
  const tall = Math.max(LINE, scale);
  for (let line = 0; line * tall < sequence.length * scale; line++) {
    const y = line * tall;
    const from = Math.floor(y / scale);
    const to = Math.min(sequence.length, Math.max(from + 1, Math.floor((y + tall) / scale)));
    yield { y, tall, first: sequence.node(from), last: sequence.node(to - 1) };
  }
}

/** Per line of pixels the distribution of its nodes, the worst at the left and never too narrow. */
function drawTones(
  context: CanvasRenderingContext2D,
  { surface, palette, tones }: MinimapFrame,
  sequence: Sequence,
): void {
  const { width, height } = surface;
  for (const { y, tall, first, last } of linesOf(sequence, height)) {
    const counts = tones.count(first, last + 1);
    let x = EDGE;
    for (const [tone, pixels] of shares(counts, width - 2 * EDGE, NARROWEST)) {
      context.fillStyle = palette.tones[tone]!.solid;
      context.fillRect(x, y, pixels, tall);
      x += pixels;
    }
  }
}

function drawMarks(frame: MinimapFrame, sequence: Sequence): void {
  const { surface, palette, hits, selected, tree } = frame;
  const { context, width, height } = surface;
  const scale = perPlace(height, sequence.length);
  context.fillStyle = palette.hit;
  for (const { y, tall, first, last } of linesOf(sequence, height)) {
    if (hits.length === 0) break;
    const at = lowerBound(hits, first);
    if (at < hits.length && hits[at]! <= last) context.fillRect(1, y, 4, tall);
  }
  if (selected < 0) return;
  context.fillStyle = palette.selection;
  const y = Math.floor(sequence.place(tree.node(selected)) * scale);
  context.fillRect(0, y - 1, width, 2);
}

function drawView(frame: MinimapFrame, sequence: Sequence): void {
  const { surface, palette, rows, side, view, tree, open, paneHeight } = frame;
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
  const top = sequence.place(tree.isSeries(from) ? tree.start(from) : from) * scale;
  const bottom = sequence.place(open[to] === 1 ? tree.start(to) : tree.end(to)) * scale;
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
