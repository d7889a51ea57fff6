import type { Rows } from '../layout/rows';
import type { Side } from '../generated/graph_pb';
import type { Tree } from '../layout/tree';
import { TONE_SEVERITY, toneOf, type Tones } from './tone';

/**
 * The colour class to look at first in any run of rows, so that an overview costs as much as its
 * pixels and not as much as its rows. Level k holds one entry per 2^k rows.
 */
export class Pyramid {
  private readonly levels: Uint8Array[] = [];

  constructor(rows: Rows, side: Side, tree: Tree, open: Uint8Array, tones: Tones) {
    const base = new Uint8Array(rows.count);
    const nodes = rows.node[side];
    for (let row = 0; row < rows.count; row++) {
      const id = nodes[row]!;
      if (id < 0) base[row] = GAP;
      else if (open[id] === 1) base[row] = toneOf(tree, tones, id, true);
      else base[row] = tones.worst(tree.isSeries(id) ? tree.start(id) : id, tree.end(id));
    }
    this.levels.push(base);
    for (let below = base; below.length > 1;) {
      const level = new Uint8Array((below.length + 1) >> 1);
      for (let at = 0; at < level.length; at++) {
        level[at] = worse(below[2 * at]!, below[2 * at + 1] ?? GAP);
      }
      this.levels.push(level);
      below = level;
    }
  }

  /** The class of the rows [from, to); `GAP` when this side has none of them. */
  worst(from: number, to: number): number {
    let worst = GAP;
    let low = from;
    let high = to;
    for (let level = 0; low < high; level++, low >>= 1, high >>= 1) {
      const entries = this.levels[level]!;
      if (low & 1) worst = worse(worst, entries[low++]!);
      if (high & 1) worst = worse(worst, entries[--high]!);
    }
    return worst;
  }
}

/** No node here. */
export const GAP = 255;

function worse(a: number, b: number): number {
  if (a === GAP) return b;
  if (b === GAP) return a;
  return TONE_SEVERITY[a]! >= TONE_SEVERITY[b]! ? a : b;
}
