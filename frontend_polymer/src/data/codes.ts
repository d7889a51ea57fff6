import { Direction, Grade, Kind, Overflow } from '../generated/graph_pb';

/** What colours say: how far the numbers are off, or where values overflow. */
export type ColourMode = 'precision' | 'overflow';

// The enumerations of the contract by their codes, to read them off columns of numbers.

export const KINDS: readonly Kind[] = [Kind.MODULE, Kind.API, Kind.COLLECTION];

export const DIRECTIONS: readonly Direction[] = [
  Direction.NONE,
  Direction.FORWARD,
  Direction.BACKWARD,
];

export const GRADES: readonly Grade[] = [
  ...[Grade.UNGRADED, Grade.OK, Grade.SLIGHT, Grade.MODERATE],
  ...[Grade.SERIOUS, Grade.SEVERE, Grade.UNMATCHED],
];

export const OVERFLOWS: readonly Overflow[] = [
  ...[Overflow.NONE, Overflow.MEDIUM, Overflow.HIGH, Overflow.CRITICAL],
];
