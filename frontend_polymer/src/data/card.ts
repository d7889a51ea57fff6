// The facts of a verdict by the question that they answer.

import type { Fact } from './facts';

/** What the facts say, by what somebody asks who sees the verdict for the first time. */
export interface Answers {
  /** Arguments that differ: `name`, `own`, `theirs`. */
  readonly differing: readonly Fact[];
  readonly what: readonly Fact[];
  /** By how much more than rounding it is off. */
  readonly sure: readonly Fact[];
  readonly follows: readonly Fact[];
  /** What was not judged, and what would not have been seen. */
  readonly limits: readonly Fact[];
  /** In percent; null where rules have judged. */
  readonly probability: number | null;
}

const WHERE = /^(accused|look_first|place$)/;
const SURE = /^size(\.|$)/;
const FOLLOWS =
  /^(followers|on_ranks\.|from_rank|from_step|weights_of_step|another_stands|gradients_added)/;
const LIMITS =
  /^(limits|not_judged|vanished|assumed_noise|reduced_products|without_partner|not_held|norms_of_own)/;

/** Sorts the facts of a verdict, or what speaks against one suspect. */
export function answersOf(facts: readonly Fact[]): Answers {
  const those = (wanted: RegExp) => facts.filter(({ code }) => wanted.test(code));
  const told = [WHERE, SURE, FOLLOWS, LIMITS, /^(argument|probability)$/];
  const percent = facts.find(({ code }) => code === 'probability')?.['percent'];
  return {
    differing: those(/^argument$/),
    what: facts.filter(({ code }) => !told.some((one) => one.test(code))),
    sure: those(SURE),
    follows: those(FOLLOWS),
    limits: those(LIMITS),
    probability: typeof percent === 'number' ? percent : null,
  };
}

/** `::2` of `[None, None, 2]` where a tensor is sliced; everything else as it is. */
export function asWritten(value: string, call: string): string {
  if (!/__(get|set)item__/.test(call)) return value;
  const parts = /^\[(None|-?\d+), (None|-?\d+), (None|-?\d+)\]$/.exec(value);
  if (!parts) return value;
  const [start = '', stop = '', step = ''] = parts
    .slice(1)
    .map((one) => (one === 'None' ? '' : one));
  return step === '' ? `${start}:${stop}` : `${start}:${stop}:${step}`;
}

/** `model.layers.1.self_attn` of a module's full name. */
export function modulePathOf(name: string): string {
  const stem = name.replace(/\.(forward|backward)\.\d+$/, '');
  const path = stem.replace(/^(Module|Cell)\./, '');
  return stem === name || path === stem ? path : path.replace(/\.[^.]+$/, '');
}

/** A path that is too long loses its middle: both ends say where one is. */
export function shortPath(path: string, most = 6): string {
  const parts = path.split('.');
  if (parts.length <= most) return path;
  return [...parts.slice(0, most / 2), '…', ...parts.slice(parts.length - most / 2)].join('.');
}
