import { Grade, Overflow } from '../generated/graph_pb';
import { GRADES, OVERFLOWS } from './codes';

const FLOWS = GRADES.length - 1; // where the columns of the overflow levels, 1 to 3, begin
const STRIDE = GRADES.length + OVERFLOWS.length - 1;

/** Grades from the calmest to the one to look at first. */
export const BY_SEVERITY: readonly Grade[] = [
  ...[Grade.UNGRADED, Grade.OK, Grade.SLIGHT, Grade.UNMATCHED],
  ...[Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE],
];

/** Place of each grade in `BY_SEVERITY`. */
export const SEVERITY: readonly number[] = GRADES.map((grade) => BY_SEVERITY.indexOf(grade));

const { OK, SLIGHT, MODERATE, SERIOUS, SEVERE } = Grade;
const WORST_FIRST: readonly Grade[] = [SEVERE, SERIOUS, MODERATE, SLIGHT, OK];
const OVERFLOW_FIRST: readonly Overflow[] = [Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM];

/**
 * What a range of nodes holds. Nodes are in pre-order, so a subtree is a range: running totals
 * answer any question about it in constant time.
 */
export class Rollup {
  private readonly totals: Uint32Array;

  constructor(grade: Uint8Array, overflow: Uint8Array) {
    this.totals = new Uint32Array((grade.length + 1) * STRIDE);
    const { totals } = this;
    for (let index = 0; index < grade.length; index++) {
      const from = index * STRIDE;
      for (let at = from; at < from + STRIDE; at++) totals[at + STRIDE] = totals[at]!;
      totals[from + STRIDE + grade[index]!]!++;
      const level = overflow[index]!;
      if (level !== 0) totals[from + STRIDE + FLOWS + level]!++;
    }
  }

  /** Nodes of this grade in [from, to). */
  grade(grade: Grade, from: number, to: number): number {
    return this.totals[to * STRIDE + grade]! - this.totals[from * STRIDE + grade]!;
  }

  /** Nodes of this overflow level in [from, to). */
  overflow(level: Overflow, from: number, to: number): number {
    const column = FLOWS + level;
    return this.totals[to * STRIDE + column]! - this.totals[from * STRIDE + column]!;
  }

  /** Worst of ok … severe in [from, to); ungraded when none is graded. */
  worstGrade(from: number, to: number): Grade {
    return WORST_FIRST.find((grade) => this.grade(grade, from, to) > 0) ?? Grade.UNGRADED;
  }

  /** The grade in [from, to) to look at first, unmatched included. */
  mostSevere(from: number, to: number): Grade {
    for (let place = BY_SEVERITY.length - 1; place > 0; place--) {
      const grade = BY_SEVERITY[place]!;
      if (this.grade(grade, from, to) > 0) return grade;
    }
    return Grade.UNGRADED;
  }

  worstOverflow(from: number, to: number): Overflow {
    return OVERFLOW_FIRST.find((level) => this.overflow(level, from, to) > 0) ?? Overflow.NONE;
  }
}
