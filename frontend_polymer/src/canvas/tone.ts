import type { Graph } from '../data/graph';
import { GRADES, OVERFLOWS, type ColourMode } from '../data/codes';
import { SEVERITY } from '../data/rollup';
import { Grade, Overflow } from '../generated/graph_pb';

/** The colour classes of the palette: the grades and, after them, the overflow levels. */
export const TONES = 10;
const OVERFLOW_TONE = 6;

/** From the calmest to the one to look at first. */
export const TONE_SEVERITY: readonly number[] = [...SEVERITY, 7, 8, 9];

/** Reads colour classes off a graph, for one node or for a whole range at once. */
export class Tones {
  constructor(
    private readonly graph: Graph,
    private readonly mode: ColourMode,
  ) {}

  of(node: number): number {
    if (this.mode === 'precision') return this.graph.grade[node]!;
    return overflowTone(this.graph.overflowOf(node));
  }

  /** The class to look at first among the nodes [from, to). */
  worst(from: number, to: number): number {
    if (this.mode === 'precision') return this.graph.rollup.mostSevere(from, to);
    return overflowTone(this.graph.rollup.worstOverflow(from, to));
  }

  /** How many of the nodes [from, to) have each class. */
  count(from: number, to: number): number[] {
    const { rollup } = this.graph;
    const counts = new Array<number>(TONES).fill(0);
    if (this.mode === 'precision') {
      for (const grade of GRADES) counts[grade] = rollup.grade(grade, from, to);
      return counts;
    }
    let rest = to - from;
    for (const level of OVERFLOWS.slice(1)) {
      const count = rollup.overflow(level, from, to);
      counts[overflowTone(level)] = count;
      rest -= count;
    }
    counts[Grade.UNGRADED] = rest;
    return counts;
  }
}

export function overflowTone(level: Overflow): number {
  return level === Overflow.NONE ? Grade.UNGRADED : OVERFLOW_TONE + level;
}
