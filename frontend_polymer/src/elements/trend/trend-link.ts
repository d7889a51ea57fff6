// What the page of trends shows, as text for a link.

import type { Trend } from '../../generated/graph_pb';

/** Which values are shown, by the identifiers of the controls that say so. */
export const CONTROLS = [
  'run',
  'other',
  'statistic',
  'fixed',
  'at',
  'kind',
  'filter',
  'order',
] as const;
export type Control = (typeof CONTROLS)[number];

/** Everything that a link carries; what is empty is left to the page. */
export interface TrendLook {
  readonly chosen: Readonly<Partial<Record<Control, string>>>;
  /** First and last step in view; null for all. */
  readonly steps: readonly [number, number] | null;
}

export function lookText({ chosen, steps }: TrendLook): string {
  const parameters = new URLSearchParams();
  for (const control of CONTROLS) {
    const value = chosen[control];
    if (value) parameters.set(control, value);
  }
  if (steps) parameters.set('steps', steps.join('-'));
  return parameters.toString();
}

/** Reads such a text; what is malformed is left to the page. */
export function lookIn(text: string): TrendLook {
  const parameters = new URLSearchParams(text);
  const chosen: Partial<Record<Control, string>> = {};
  for (const control of CONTROLS) {
    const value = parameters.get(control);
    if (value) chosen[control] = value;
  }
  const found = /^(\d{1,15})-(\d{1,15})$/.exec(parameters.get('steps') ?? '');
  return { chosen, steps: found && [Number(found[1]), Number(found[2])] };
}

/** Places of the steps from the first to the last one; null where none lies there. */
export function rangeOf(
  { steps }: Trend,
  wanted: readonly [number, number] | null,
): [number, number] | null {
  if (!wanted) return null;
  const inside = steps.flatMap((step, at) => (step >= wanted[0] && step <= wanted[1] ? [at] : []));
  return inside.length ? [inside[0]!, inside.at(-1)!] : null;
}
