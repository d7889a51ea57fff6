// The texts for codes that the server sends.

import { Grade, Kind, Overflow } from '../../generated/graph_pb';
import type { ProblemError } from '../../data/problem';
import type { Texts } from '../../i18n';
import type { ProblemTexts, ProblemWording } from '../../i18n/en';

const GRADES: Record<Grade, keyof Texts['grades']> = {
  [Grade.UNGRADED]: 'ungraded',
  [Grade.OK]: 'ok',
  [Grade.SLIGHT]: 'slight',
  [Grade.MODERATE]: 'moderate',
  [Grade.SERIOUS]: 'serious',
  [Grade.SEVERE]: 'severe',
  [Grade.UNMATCHED]: 'unmatched',
};

/** What the levels of an overflow check are called. */
export type OverflowLevel = Exclude<Overflow, Overflow.NONE>;

const OVERFLOWS: Record<OverflowLevel, keyof Texts['overflow']> = {
  [Overflow.MEDIUM]: 'medium',
  [Overflow.HIGH]: 'high',
  [Overflow.CRITICAL]: 'critical',
};

const KINDS: Record<Kind, keyof Texts['kinds']> = {
  [Kind.MODULE]: 'module',
  [Kind.API]: 'api',
  [Kind.COLLECTION]: 'collection',
};

export function gradeName(grade: Grade, text: Texts): string {
  return text.grades[GRADES[grade]];
}

export function overflowName(level: OverflowLevel, text: Texts): { name: string; hint: string } {
  const key = OVERFLOWS[level];
  return { name: text.overflow[key], hint: text.overflowHints[key] };
}

export function kindName(kind: Kind, text: Texts): string {
  return text.kinds[KINDS[kind]];
}

/** The translation under this key, or the server's own wording. */
export function translated<T>(texts: Readonly<Record<string, T>>, key: string, otherwise: T): T {
  return Object.hasOwn(texts, key) ? texts[key]! : otherwise;
}

/** What to say about a problem: translated where there is a translation, else the server's words. */
export function problemWording(problem: ProblemError, file: string, text: Texts): ProblemWording {
  const wording: ProblemTexts[string] | undefined = text.problems[problem.code];
  return wording?.(file) ?? problem;
}
