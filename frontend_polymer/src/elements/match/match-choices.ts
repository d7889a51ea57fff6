import {
  Grade,
  Side,
  type EditState,
  type MatchCandidate,
  type MatchReport,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { asProblem } from '../../data/problem';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { formatCount } from '../parts/format';
import { translated } from '../parts/words';

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
  const listed = candidates.map(({ index, name, reasons, matchedIndex, matchedName }) => {
    const facts = reasons.map((reason) => translated<string>(text.match.reasons, reason, reason));
    if (matchedIndex !== undefined) facts.push(text.match.takenBy(matchedName));
    return { index, name, facts: facts.join(' · '), isChosen: index === chosen?.index };
  });
  return chosen && !isListed ? [{ ...chosen, facts: '', isChosen: true }, ...listed] : listed;
}

/** What was done. */
export function outcomeOf({ imported, changes }: MatchReport, text: Texts): string {
  if (imported.length === 0) return text.match.done(formatCount(changes.length));
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
