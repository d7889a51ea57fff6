import {
  Grade,
  MatchAction,
  Kind,
  Side,
  type EditState,
  type MatchCandidate,
  type MatchReport,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { routeUrl } from '../../data/api';
import { asProblem } from '../../data/problem';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { formatCount } from '../parts/format';
import { translated } from '../parts/words';

const DONE_BY_MAKING: ReadonlySet<MatchAction> = new Set([MatchAction.MATCH, MatchAction.CONFIRM]);

/** The node to match with. */
export interface Chosen {
  readonly index: number;
  readonly name: string;
}

export interface Choice extends Chosen {
  /** What speaks for it, and against it. */
  readonly facts: string;
  readonly isChosen: boolean;
}

/** The candidates as a list to choose from; a node chosen in the graph comes first. */
export function choicesOf(
  candidates: readonly MatchCandidate[],
  chosen: Chosen | null,
  text: Texts,
): Choice[] {
  const isListed = candidates.some(({ index }) => index === chosen?.index);
  const listed = candidates.map((candidate) => {
    const { index, name, reasons, matchedIndex, matchedName, likelihood } = candidate;
    const facts = reasons.map((reason) => translated<string>(text.match.reasons, reason, reason));
    if (likelihood !== undefined) facts.unshift(text.match.likely(Math.round(100 * likelihood)));
    if (matchedIndex !== undefined) facts.push(text.match.takenBy(matchedName));
    return { index, name, facts: facts.join(' · '), isChosen: index === chosen?.index };
  });
  return chosen && !isListed ? [{ ...chosen, facts: '', isChosen: true }, ...listed] : listed;
}

/** The first candidate that nobody else has; null where all of them are taken. */
export function bestOf(candidates: readonly MatchCandidate[]): Chosen | null {
  const best = candidates.find(({ matchedIndex }) => matchedIndex === undefined);
  return best ? { index: best.index, name: best.name } : null;
}

/** Whether something lies below the selected node. */
export function hasBelow({ selected, graphs }: AppState): boolean {
  return selected !== null && graphs?.[selected.side]?.hasChildren(selected.index) === true;
}

/** Whether a node of this name may stand in another step, rank or micro-step, too. */
export function hasElsewhere(state: AppState): boolean {
  const { selected, graphs } = state;
  const graph = selected && graphs?.[selected.side];
  if (!graph || selected.index === 0) return false;
  const places = fileOf(state)?.graphs.length ?? 0;
  return places > 1 || graph.kindOf(selected.index) === Kind.MODULE;
}

export function isWritable(state: AppState): boolean {
  return fileOf(state)?.writable === true;
}

export function exportUrl(file: string): string {
  return routeUrl('matches', { file, format: 'json' }).href;
}

export function hasConflicts(report: MatchReport | null, replaces: boolean): boolean {
  return replaces || (report?.conflicts.length ?? 0) > 0;
}

export function canApply(report: MatchReport | null, busy: boolean): boolean {
  return !busy && report !== null && report.changes.length > 0 && report.conflicts.length === 0;
}

/** What was done: how many pairs, and which came first. */
function changesOf(report: MatchReport, text: Texts): string {
  const { changes } = report;
  const count = formatCount(changes.length);
  const [first] = changes;
  if (!first) return text.match.done(count);
  const made = changes.filter(({ action }) => DONE_BY_MAKING.has(action)).length;
  const parts = [
    made > 0 ? text.match.made(formatCount(made)) : '',
    made < changes.length ? text.match.ended(formatCount(changes.length - made)) : '',
  ];
  const pair = `${first.npuName} ↔ ${first.benchName}`;
  const left = report.leftOut > 0 ? ` ${text.match.leftOut(formatCount(report.leftOut))}` : '';
  const done = text.match.doneSo(count, parts.filter((part) => part !== '').join(' · '), pair);
  return `${done}${left}`;
}

/** What was done. */
export function outcomeOf(report: MatchReport, text: Texts): string {
  const { imported } = report;
  if (imported.length === 0) return changesOf(report, text);
  const matched = imported.filter(({ matched: graphs }) => graphs > 0).length;
  return text.match.imported(formatCount(matched), formatCount(imported.length));
}

export function messageOf(error: unknown): string {
  const { message, remedy } = asProblem(error);
  return `${message} ${remedy}`.trim();
}

/** The calls of the other direction, by name, where they can be or are asked for as well. */
export function twinLabel(report: MatchReport | null, isAsked: boolean, text: Texts): string {
  const offer = report?.offers[0];
  const named = offer ?? report?.changes.find(({ cause }) => cause === 'twin');
  return named && (isAsked || offer) ? text.match.twin(named.npuName, named.benchName) : '';
}

export function candidatesTitle({ selected }: AppState, text: Texts): string {
  const { debug, reference } = text.sides;
  return text.match.candidates(selected?.side === Side.BENCH ? debug : reference);
}

export function editHint(
  edit: EditState['undo'],
  hint: (npu: string, bench: string) => string,
): string {
  return edit ? hint(edit.npuName, edit.benchName) : '';
}

/** Why no partner can be chosen for the selected node; empty when one can. */
export function pickRefusal(state: AppState, text: Texts): string {
  const { selected, graphs } = state;
  const graph = selected && graphs?.[selected.side];
  if (!hasBench(state)) return text.match.notComparable;
  if (!fileOf(state)?.writable) return text.match.readOnly;
  return graph?.gradeOf(selected!.index) === Grade.UNMATCHED ? '' : text.match.needsFree;
}
