import { CallRole, Direction, Grade, Kind, Overflow } from '../generated/graph_pb';

/**
 * What colours say: what part each node plays in the verdict, the documented error, what no rounding
 * explains, the error as a share of its tensor, or where values overflow.
 */
export type ColourMode = 'role' | 'precision' | 'beyond' | 'scaled' | 'overflow';
export const COLOUR_MODES: readonly ColourMode[] = [
  ...(['role', 'precision', 'beyond', 'scaled', 'overflow'] as const),
];

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

export const CALL_ROLES: readonly CallRole[] = [
  ...[CallRole.UNKNOWN, CallRole.CLEAN, CallRole.SUSPECT],
  ...[CallRole.CARRIER, CallRole.AMPLIFIER],
];
