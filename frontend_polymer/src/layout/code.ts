import type { Graph } from '../data/graph';
import { lowerBound } from '../data/sorted';

/**
 * Writes which nodes are unfolded as text for an address: a row of bits, one for each node that has
 * children, in execution order.
 */
export function encodeOpen(graph: Graph, open: Uint8Array): string {
  // After every change of the view, so nothing is made that is as large as the graph, and what is
  // folded, nearly all of a large one, is stepped over.
  const bits = new Runs();
  const { folders } = graph;
  const nodes = open.subarray(0, graph.count);
  let told = 0;
  for (let node = nodes.indexOf(1); node >= 0; node = nodes.indexOf(1, node + 1)) {
    const at = lowerBound(folders, node);
    bits.add(0, at - told);
    told = at;
    if (folders[at] !== node) continue;
    bits.add(1, 1);
    told++;
  }
  bits.add(0, folders.length - told);
  return bits.text();
}

/** The opposite of `encodeOpen`; null when the text does not belong to this graph. */
export function decodeOpen(graph: Graph, text: string): Uint8Array | null {
  const bits = decodeBits(text, graph.folders.length);
  if (bits === null) return null;
  const open = new Uint8Array(graph.count);
  graph.folders.forEach((node, at) => (open[node] = bits[at]!));
  return open;
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
