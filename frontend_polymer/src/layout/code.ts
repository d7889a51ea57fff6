import type { Graph } from '../data/graph';

/**
 * Writes which nodes are unfolded as text for an address: a row of bits, one for each node that has
 * children, in execution order.
 */
export function encodeOpen(graph: Graph, open: Uint8Array): string {
  // After every change of the view, so nothing is made that is as large as the graph, and what is
  // folded, nearly all of a large one, is stepped over.
  const bits = new Runs();
  const folders = foldersOf(graph);
  const nodes = open.subarray(0, graph.count);
  for (let node = 0; node < graph.count; node++) {
    const next = nodes.indexOf(1, node);
    const to = next < 0 ? graph.count : next;
    bits.add(0, folders.between(node, to));
    if (to < graph.count && graph.hasChildren(to)) bits.add(1, 1);
    node = to;
  }
  return bits.text();
}

/** How many nodes with children there are, counted once for each block. */
class Folders {
  private readonly before: Int32Array;

  constructor(private readonly graph: Graph) {
    this.before = new Int32Array(Math.ceil(graph.count / BLOCK) + 1);
    for (let block = 1; block < this.before.length; block++) {
      const from = (block - 1) * BLOCK;
      this.before[block] = this.before[block - 1]! + this.within(from, from + BLOCK);
    }
  }

  /** How many there are from one node on up to another. */
  between(from: number, to: number): number {
    const [first, last] = [Math.ceil(from / BLOCK), Math.floor(to / BLOCK)];
    if (first >= last) return this.within(from, to);
    const whole = this.before[last]! - this.before[first]!;
    return this.within(from, first * BLOCK) + whole + this.within(last * BLOCK, to);
  }

  private within(from: number, to: number): number {
    const { end, count } = this.graph;
    let found = 0;
    for (let node = from; node < Math.min(to, count); node++) {
      if (end[node]! > node + 1) found++;
    }
    return found;
  }
}

const BLOCK = 256;
const known = new WeakMap<Graph, Folders>();

function foldersOf(graph: Graph): Folders {
  let folders = known.get(graph);
  if (!folders) known.set(graph, (folders = new Folders(graph)));
  return folders;
}

/** The opposite of `encodeOpen`; null when the text does not belong to this graph. */
export function decodeOpen(graph: Graph, text: string): Uint8Array | null {
  const open = new Uint8Array(graph.count);
  for (let node = 0; node < graph.count; node++) open[node] = graph.hasChildren(node) ? 1 : 0;
  const bits = decodeBits(
    text,
    open.reduce((sum, bit) => sum + bit, 0),
  );
  if (bits === null) return null;
  let next = 0;
  return open.map((bit) => (bit === 1 ? bits[next++]! : 0));
}

/** The lengths of the runs, that of zeros first, in base 64. */
export function encodeBits(bits: Uint8Array): string {
  const runs = new Runs();
  for (const bit of bits) runs.add(bit, 1);
  return runs.text();
}

/** Bits as the lengths of their runs. */
class Runs {
  private readonly ended: number[] = [];
  private current = 0;
  private length = 0;

  add(bit: number, times: number): void {
    if (times === 0) return;
    if (bit !== this.current) {
      this.ended.push(this.length);
      this.current = bit;
      this.length = 0;
    }
    this.length += times;
  }

  /** The last run follows from the number of bits. */
  text(): string {
    return this.ended.map(digits).join('');
  }
}

/** The opposite of `encodeBits`; null when the text holds more or other than so many bits. */
export function decodeBits(text: string, count: number): Uint8Array | null {
  const runs = numbers(text);
  if (runs === null || runs.indexOf(0, 1) > 0) return null;
  const bits = new Uint8Array(count);
  let at = 0;
  for (const [place, run] of runs.entries()) {
    // Something must be left for the run that is not written.
    if (at + run >= count) return null;
    bits.fill(place % 2, at, at + run);
    at += run;
  }
  return bits.fill(runs.length % 2, at);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Five bits per character, the lowest first; the sixth says that more follow. */
function digits(value: number): string {
  let text = '';
  let rest = value;
  while (rest >= 32) {
    text += ALPHABET[32 + (rest % 32)]!;
    rest = Math.floor(rest / 32);
  }
  return text + ALPHABET[rest]!;
}

function numbers(text: string): number[] | null {
  const values: number[] = [];
  let value = 0;
  let scale = 1;
  for (const character of text) {
    const digit = ALPHABET.indexOf(character);
    if (digit < 0 || scale > 32 ** 6) return null;
    value += (digit % 32) * scale;
    scale *= 32;
    if (digit >= 32) continue;
    values.push(value);
    value = 0;
    scale = 1;
  }
  return scale === 1 ? values : null;
}
