// Colours of a graph's nodes: what each grade says, and how its number is written.

import { CallRole, Grade, Side, type GradeBand } from '../generated/graph_pb';
import { CALL_ROLES, GRADES, type ColourMode } from './codes';
import type { Graph } from './graph';
import { beyondGrade, gradeOf } from './grades';
import { Rollup } from './rollup';

/** An error below this share of its tensor is small, whatever its relative error says. */
export const SMALL = 0.05;

export enum Mark {
  NONE,
  /** The documented grade is not fine, yet the error is small for its tensor: a value near zero. */
  NEAR_ZERO,
  /** The documented grade is fine, yet the output is off: the error was there before. */
  HIDDEN,
}

export const MARKS: readonly Mark[] = [Mark.NONE, Mark.NEAR_ZERO, Mark.HIDDEN];

/** The other measures of each node of the debug side. */
export interface Measured {
  readonly scaled: ArrayLike<number>;
  readonly roundings: ArrayLike<number>;
}

/** What is known of the nodes beside the documented errors. */
export interface Known {
  readonly measures: Measured | null;
  readonly bands: readonly GradeBand[];
  /** Who may be to blame, ascending, per side. */
  readonly suspects?: readonly [Int32Array, Int32Array];
  /** Whether the verdict explains all that differs, so that nobody is to blame. */
  readonly isClean?: boolean;
}

/**
 * The parts that nodes play in the verdict, by the grades that stand for them in a colouring; what
 * is unmatched stays so.
 */
export const PARTS = {
  unjudged: Grade.UNGRADED,
  clean: Grade.OK,
  /** Of the reference: the other side is judged by it. */
  given: Grade.SLIGHT,
  carrier: Grade.MODERATE,
  suspect: Grade.SEVERE,
} as const;

/** One way to colour the nodes of one side. */
export interface Colouring {
  readonly grade: Uint8Array;
  readonly rollup: Rollup;
  readonly mark: Uint8Array | null;
  /** The number of a node as it is drawn; `asPower` keeps small ones apart. */
  number(index: number, asPower: boolean): string;
}

/** Whether a file has what the measured colourings need. */
export function hasMeasures(measures: Measured | null, graph: Graph | null | undefined): boolean {
  return measures !== null && measures.scaled.length === graph?.count;
}

const latest = new WeakMap<Graph, { readonly key: readonly unknown[]; readonly made: Colouring }>();

/**
 * Colours by the documented error, or as a measure grades it; the reference has no errors. Who asks
 * for the same once more gets the same: of a million nodes it takes megabytes.
 */
export function colouringOf(
  graph: Graph,
  mode: ColourMode,
  known: Known,
  isReference: boolean,
): Colouring {
  const key = [mode, known.measures, known.bands, known.suspects, known.isClean, isReference];
  const before = latest.get(graph);
  if (before?.key.every((part, at) => part === key[at])) return before.made;
  const made = newColouring(graph, mode, known, isReference);
  latest.set(graph, { key, made });
  return made;
}

function newColouring(
  graph: Graph,
  mode: ColourMode,
  known: Known,
  isReference: boolean,
): Colouring {
  const { measures, bands } = known;
  const own = isReference || !hasMeasures(measures, graph) ? null : measures;
  if (mode === 'role') {
    const grade = partsOf(
      graph,
      known.suspects?.[isReference ? Side.BENCH : Side.NPU] ?? [],
      isReference,
      known.isClean ?? false,
    );
    return {
      ...{ grade, mark: null, rollup: new Rollup(grade, graph.overflow) },
      number: (index, asPower) =>
        own ? shareText(own.scaled[index]!, asPower) : errorText(graph.error[index]!, asPower),
    };
  }
  const isDocumented = mode === 'precision' || mode === 'overflow';
  if (isDocumented || !own) {
    return {
      ...{ grade: graph.grade, rollup: graph.rollup },
      mark: own && marksOf(graph, own),
      number: (index, asPower) => errorText(graph.error[index]!, asPower),
    };
  }
  const { scaled, roundings } = own;
  const grade = graph.grade.map((documented, index) => {
    const known = GRADES[documented]!;
    if (known === Grade.UNMATCHED) return documented;
    if (scaled[index]! < 0) return known === Grade.OK ? Grade.OK : Grade.UNGRADED;
    return mode === 'scaled'
      ? gradeOf(scaled[index]!, bands)
      : beyondGrade(scaled[index]!, roundings[index]!);
  });
  return {
    ...{ grade, mark: null },
    rollup: new Rollup(grade, graph.overflow),
    number: (index, asPower) =>
      mode === 'scaled' ? shareText(scaled[index]!, asPower) : timesText(roundings[index]!),
  };
}

/** The reference is what the other side is judged by: of itself only who is missing there counts. */
function partsOf(
  graph: Graph,
  suspects: Iterable<number>,
  isReference: boolean,
  isClean: boolean,
): Uint8Array {
  const parts = graph.role.map((code, index) => {
    if (GRADES[graph.grade[index]!] === Grade.UNMATCHED) return Grade.UNMATCHED;
    const role = CALL_ROLES[code]!;
    const isOff = role !== CallRole.CLEAN && role !== CallRole.UNKNOWN;
    if (isOff && !isClean) return role === CallRole.SUSPECT ? PARTS.suspect : PARTS.carrier;
    if (isReference) return PARTS.given;
    return role === CallRole.CLEAN ? PARTS.clean : PARTS.unjudged;
  });
  for (const index of suspects) parts[index] = PARTS.suspect;
  return parts;
}

function marksOf(graph: Graph, { scaled }: Measured): Uint8Array {
  return graph.grade.map((documented, index) => {
    const error = scaled[index]!;
    const grade = GRADES[documented]!;
    if (error < 0 || grade === Grade.UNMATCHED || grade === Grade.UNGRADED) return Mark.NONE;
    if (grade === Grade.OK) return error >= SMALL ? Mark.HIDDEN : Mark.NONE;
    return error < SMALL ? Mark.NEAR_ZERO : Mark.NONE;
  });
}

/** The documented error, short; nothing for none and for no error at all. */
export function errorText(error: number, asPower = false): string {
  if (!(error > 0)) return '';
  if (error >= 0.9995) return '1';
  if (error >= 0.0005) return error.toFixed(3);
  return asPower ? powerText(error) : '<0.001';
}

/** `6e-8` */
function powerText(value: number): string {
  return value.toExponential(0);
}

function shareText(share: number, asPower: boolean): string {
  if (!(share > 0)) return '';
  if (share >= 10) return '>999 %';
  if (share >= 0.995) return `${(share * 100).toFixed(0)} %`;
  if (share >= 0.0005) return `${(share * 100).toPrecision(share < 0.00995 ? 1 : 2)} %`;
  return asPower ? powerText(share) : '<0.1 %';
}

function timesText(times: number): string {
  if (!(times > 0)) return '';
  if (times < 1) return '<×1';
  return times < 9995 ? `×${times.toFixed(0)}` : `×${powerText(times).replace('+', '')}`;
}
