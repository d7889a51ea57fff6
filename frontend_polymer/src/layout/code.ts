import type { Graph } from '../data/graph';

/**
 * Writes which nodes are unfolded as text for an address. The nodes that have children form a row of
 * bits in execution order; the text holds the lengths of its runs, closed first, in base 64.
 */
export function encodeOpen(graph: Graph, open: Uint8Array): string {
  const runs: number[] = [];
  let current = 0;
  let length = 0;
  for (let node = 0; node < graph.count; node++) {
    if (!graph.hasChildren(node)) continue;
    if (open[node] !== current) {
      runs.push(length);
      current = open[node]!;
      length = 0;
    }
    length++;
  }
  // The last run follows from the graph.
  return runs.map(digits).join('');
}

/** The opposite of `encodeOpen`; null when the text does not belong to this graph. */
export function decodeOpen(graph: Graph, text: string): Uint8Array | null {
  const runs = numbers(text);
  if (runs === null || runs.indexOf(0, 1) > 0) return null;
  const open = new Uint8Array(graph.count);
  let current = 0;
  let run = 0;
  let left = runs[0] ?? Infinity;
  for (let node = 0; node < graph.count; node++) {
    if (!graph.hasChildren(node)) continue;
    while (left === 0) {
      current = 1 - current;
      left = runs[++run] ?? Infinity;
    }
    open[node] = current;
    left--;
  }
  return run >= runs.length - 1 ? open : null;
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
