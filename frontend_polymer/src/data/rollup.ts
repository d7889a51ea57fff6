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

/** Nodes between two running totals: as many are counted one by one at either end of a range. */
const BLOCK = 64;

/**
 * What a range of nodes holds. Nodes are in pre-order, so a subtree is a range: running totals, one
 * in every `BLOCK` nodes, answer any question about it in constant time.
 */
export class Rollup {
  private readonly totals: Uint32Array;

  constructor(
    private readonly grades: Uint8Array,
    private readonly overflows: Uint8Array,
  ) {
    this.totals = new Uint32Array((Math.floor(grades.length / BLOCK) + 1) * STRIDE);
    const { totals } = this;
    for (let from = 0, at = STRIDE; at < totals.length; from += BLOCK, at += STRIDE) {
      totals.copyWithin(at, at - STRIDE, at);
      for (let index = from; index < from + BLOCK; index++) {
        totals[at + grades[index]!]!++;
        const level = overflows[index]!;
        if (level !== 0) totals[at + FLOWS + level]!++;
      }
    }
  }

  /** Nodes of this grade in [from, to). */
  grade(grade: Grade, from: number, to: number): number {
    return this.count(this.grades, grade, grade, from, to);
  }

  /** Nodes of this overflow level in [from, to). */
  overflow(level: Overflow, from: number, to: number): number {
    return this.count(this.overflows, level, FLOWS + level, from, to);
  }

  private count(
    values: Uint8Array,
    wanted: number,
    column: number,
    from: number,
    to: number,
  ): number {
    if (to - from <= BLOCK) return counted(values, wanted, from, to);
    const [first, last] = [Math.ceil(from / BLOCK), Math.floor(to / BLOCK)];
    const { totals } = this;
    return (
      counted(values, wanted, from, first * BLOCK) +
      (totals[last * STRIDE + column]! - totals[first * STRIDE + column]!) +
      counted(values, wanted, last * BLOCK, to)
    );
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

function counted(values: Uint8Array, wanted: number, from: number, to: number): number {
  let count = 0;
  for (let index = from; index < to; index++) if (values[index] === wanted) count++;
  return count;
}
