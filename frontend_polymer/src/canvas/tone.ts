import type { Graph } from '../data/graph';
import { GRADES, OVERFLOWS, type ColourMode } from '../data/codes';
import { Mark, MARKS, PARTS, type Colouring } from '../data/colouring';
import { SEVERITY } from '../data/rollup';
import { Grade, Overflow } from '../generated/graph_pb';
import type { Tree } from '../layout/tree';

/**
 * The colour classes of the palette: the grades and, after them, the overflow levels and the parts
 * that nodes, and whole graphs, play in the verdict.
 */
export const TONES = 15;
const OVERFLOW_TONE = 6;
export const PART_TONES = { unjudged: 10, clean: 11, carrier: 12, suspect: 13, undecided: 14 };

/** The class of what stands for a part in a colouring. */
const BY_GRADE: readonly number[] = GRADES.map((grade) => {
  if (grade === PARTS.given) return Grade.UNGRADED;
  const parts = ['unjudged', 'clean', 'carrier', 'suspect'] as const;
  const part = parts.find((one) => PARTS[one] === grade);
  return part ? PART_TONES[part] : grade;
});

/** Nothing is known, or all is well. */
const CALM: readonly number[] = [
  ...[Grade.UNGRADED, Grade.OK, PART_TONES.unjudged, PART_TONES.clean],
];

export function isCalm(tone: number): boolean {
  return CALM.includes(tone);
}

/** From the calmest to the one to look at first. */
export const TONE_SEVERITY: readonly number[] = [...SEVERITY, 7, 8, 9, 0.5, 1, 4.5, 6.5, 4];

/** Reads colour classes off a graph, for one node or for a whole range at once. */
export class Tones {
  constructor(
    private readonly graph: Graph,
    private readonly mode: ColourMode,
    private readonly colouring: Colouring,
    private readonly asPower = false,
  ) {}

  of(node: number): number {
    if (this.mode === 'overflow') return overflowTone(this.graph.overflowOf(node));
    return this.classed(this.colouring.grade[node]!);
  }

  /** The class to look at first among the nodes [from, to). */
  worst(from: number, to: number): number {
    const { rollup } = this.colouring;
    if (this.mode === 'overflow') return overflowTone(rollup.worstOverflow(from, to));
    return this.classed(rollup.mostSevere(from, to));
  }

  /** How many of the nodes [from, to) have each class. */
  count(from: number, to: number): number[] {
    const { rollup } = this.colouring;
    const counts = new Array<number>(TONES).fill(0);
    if (this.mode !== 'overflow') {
      for (const grade of GRADES) counts[this.classed(grade)]! += rollup.grade(grade, from, to);
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

  /** What the documented error hides, where it is what the colours say. */
  mark(node: number): Mark {
    if (this.mode !== 'precision') return Mark.NONE;
    return MARKS[this.colouring.mark?.[node] ?? 0]!;
  }

  private classed(grade: number): number {
    return this.mode === 'role' ? BY_GRADE[grade]! : grade;
  }

  /** The number beside a node; empty where there is none. */
  number(node: number): string {
    return this.colouring.number(node, this.asPower);
  }
}

export function overflowTone(level: Overflow): number {
  return level === Overflow.NONE ? Grade.UNGRADED : OVERFLOW_TONE + level;
}

/** The colour class of a row itself: a series has that of its worst layer while that is hidden. */
export function toneOf(tree: Tree, tones: Tones, id: number, isOpen: boolean): number {
  if (!tree.isSeries(id)) return tones.of(id);
  let worst: number = Grade.UNGRADED;
  if (isOpen) return worst;
  for (const layer of tree.children(id)) {
    const tone = tones.of(layer);
    if (TONE_SEVERITY[tone]! > TONE_SEVERITY[worst]!) worst = tone;
  }
  return worst;
}
