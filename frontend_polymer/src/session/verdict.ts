// What the build concludes, and the way from one suspect, or one error, to the next.

import { GRADES } from '../data/codes';
import { factsOf } from '../data/facts';
import type { Graph } from '../data/graph';
import { Grade, Side, type GraphPair, type Suspect, type Verdict } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import type { NodeRef } from '../layout/hierarchy';
import { fileOf, type AppState } from './app-state';
import type { NodePlace } from './finding';

export function verdictOf(state: AppState): Verdict | undefined {
  return fileOf(state)?.verdict;
}

/** Whether nothing is off by more than rounding explains: what differs is no error to lead to. */
export function isRounding(verdict: Verdict | undefined): boolean {
  const said = factsOf(verdict?.said ?? '');
  return verdict?.conclusion === 'clean' || said.some(({ code }) => code === 'cannot_tell.hidden');
}

/** Said where matches were made or ended since, which the verdict does not know; else empty. */
export function olderThanMatches(state: AppState, text: Texts): string {
  const changed = verdictOf(state) ? (fileOf(state)?.edits?.changed ?? 0) : 0;
  return changed ? text.verdict.older(changed) : '';
}

/** The suspects of the step and rank that is shown, the likeliest first. */
export function suspectsHere(state: AppState): Suspect[] {
  const { step, rank } = state.view;
  const all = verdictOf(state)?.suspects ?? [];
  return all.filter((suspect) => suspect.step === step && suspect.rank === rank);
}

/** The first of each call, wherever else that is wrong, too; weights stand for one another. */
export function eachCallOnce(suspects: readonly Suspect[]): Suspect[] {
  const found = new Map<string, Suspect>();
  for (const suspect of suspects) {
    const call = suspect.cause === 'weights' ? 'weights' : `${suspect.side} ${suspect.name}`;
    if (!found.has(call)) found.set(call, suspect);
  }
  return [...found.values()];
}

export function placeOf({ step, rank, side, name }: Suspect): NodePlace {
  return { step, rank, side, node: name };
}

/** The suspect after or before the selected one, round all steps and ranks. */
export function nextSuspect(state: AppState, direction: 1 | -1): Suspect | undefined {
  const all = verdictOf(state)?.suspects ?? [];
  const at = all.findIndex((suspect) => isSelected(state, suspect));
  const from = at < 0 && direction < 0 ? 0 : at;
  return all[(from + direction + all.length) % all.length];
}

/** The suspect that the verdict card is about: the selected one, else the first. */
export function shownSuspect(state: AppState): Suspect | undefined {
  const all = verdictOf(state)?.suspects ?? [];
  return all[state.view.page === 'overview' ? 0 : Math.max(0, suspectPosition(state))];
}

/** Place of the selected suspect among all of them, -1 when it is none. */
export function suspectPosition(state: AppState): number {
  return (verdictOf(state)?.suspects ?? []).findIndex((suspect) => isSelected(state, suspect));
}

/** Whether a suspect is what is selected in the graph. */
export function isSelected({ view, selected }: AppState, suspect: Suspect): boolean {
  const isHere = suspect.step === view.step && suspect.rank === view.rank;
  return isHere && selected?.side === suspect.side && selected.index === suspect.index;
}

/** Whether most of the nodes have no counterpart: a clean graph of the rest says nothing. */
export function isLittleInCommon({ npuNodes, npuUnmatched, benchNodes }: GraphPair): boolean {
  return benchNodes > 0 && npuUnmatched > npuNodes / 2;
}

/** What to select in a graph that nothing is selected in: its first suspect, if it has a strong one. */
export function initialSelection(state: AppState): NodeRef | null {
  const suspect = suspectsHere(state).find(({ strong }) => strong);
  return suspect ? { side: suspect.side, index: suspect.index } : null;
}

/** The call in error after or before the selected node, going round; -1 when there is none. */
export function nextError(
  graph: Graph,
  grades: Uint8Array,
  selected: NodeRef | null,
  least: Grade,
  direction: 1 | -1,
): number {
  const from = selected?.side === Side.NPU ? selected.index : direction === 1 ? -1 : graph.count;
  for (let step = 1; step <= graph.count; step++) {
    const index = (from + direction * step + 2 * graph.count) % graph.count;
    const grade = GRADES[grades[index]!]!;
    const isError = grade >= least && grade <= Grade.SEVERE;
    if (isError && !graph.hasChildren(index)) {
      return index;
    }
  }
  return -1;
}
