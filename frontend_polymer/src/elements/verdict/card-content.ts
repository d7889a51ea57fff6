// What the verdict card shows, put together from the verdict, its suspect and the suspect's node.

import { answersOf, asWritten, modulePathOf, shortPath, type Answers } from '../../data/card';
import { factsOf, type Fact } from '../../data/facts';
import { slicesOf, type Slices } from '../../data/slices';
import { callSite } from '../../data/stack-frames';
import { Side, type GraphPair, type NodeDetail, type Suspect } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import { detailOf } from '../../session/lead';
import { eachCallOnce, shownSuspect, verdictOf } from '../../session/verdict';
import { formatCount, rankList } from '../parts/format';
import { translated } from '../parts/words';

/** An argument on both sides. */
export interface Differing {
  readonly name: string;
  readonly own: string;
  readonly theirs: string;
}

/** A suspect that may be it as well. */
export interface Rival {
  readonly suspect: Suspect;
  readonly label: string;
}

export interface CardContent {
  /** fault, clean, undecided */
  readonly conclusion: string;
  readonly title: string;
  readonly suspect: Suspect | null;
  readonly module: string;
  readonly wholeModule: string;
  readonly call: string;
  readonly place: string;
  readonly source: string;
  readonly code: string;
  readonly differing: readonly Differing[];
  readonly what: string;
  readonly slices: Slices | null;
  readonly sure: string;
  readonly rival: Rival | null;
  readonly follows: string;
  readonly command: string;
  readonly limits: string;
}

/** Null where nothing was judged. */
export function cardContent(state: AppState, text: Texts): CardContent | null {
  const verdict = verdictOf(state);
  if (!verdict) return null;
  const suspect = shownSuspect(state) ?? null;
  const detail = suspect && detailOf(state, suspect);
  const said = factsOf(verdict.said);
  const isFirst = suspect === (verdict.suspects[0] ?? null);
  const answers = answersOf(isFirst || !suspect ? said : factsOf(suspect.evidence));
  const { conclusions, told } = text.verdict;
  const wholeModule = suspect ? moduleOf(suspect, detail) : '';
  const graphs = fileOf(state)?.graphs ?? [];
  return {
    conclusion: verdict.conclusion,
    title: translated<string>(conclusions, verdict.conclusion, verdict.conclusion),
    suspect,
    ...{ module: shortPath(wholeModule), wholeModule },
    call: suspect ? calledOf(suspect, text) : '',
    place: suspect ? text.find.place(suspect.step, suspect.rank) : '',
    source: suspect?.source ?? '',
    code: codeOf(suspect, detail),
    differing: differingOf(answers, suspect),
    what: told(answers.what),
    slices: slicesShown(detail),
    sure: suspect ? sureOf(suspect, answers, text) : '',
    rival: suspect ? rivalOf(verdict.suspects, suspect, text) : null,
    follows: text.shell.sentences(told(answers.follows), placesOf(graphs, text)),
    command: suspect?.command ?? '',
    limits: told(answersOf(said).limits),
  };
}

/** What the conclusion, or what speaks against the suspect, comes to in one line. */
export function briefOf(card: CardContent, text: Texts): string {
  const [first] = card.differing;
  if (!first) return card.what;
  return `${text.verdict.argument(first.name)}: ${first.own} → ${first.theirs}`;
}

function moduleOf(suspect: Suspect, detail: NodeDetail | null): string {
  const record = suspect.side === Side.BENCH ? detail?.bench : detail?.npu;
  return modulePathOf(record?.path.at(-1) ?? '');
}

function calledOf({ name, cause }: Suspect, text: Texts): string {
  return cause === 'unrecorded' ? text.verdict.before(name) : name;
}

function codeOf(suspect: Suspect | null, detail: NodeDetail | null): string {
  const record = suspect?.side === Side.BENCH ? detail?.bench : detail?.npu;
  const frames = record?.stack ?? [];
  return frames[callSite(frames)]?.source.trim() ?? '';
}

function differingOf({ differing }: Answers, suspect: Suspect | null): Differing[] {
  const call = suspect?.name ?? '';
  return differing.map((fact) => ({
    name: textIn(fact, 'name'),
    own: asWritten(textIn(fact, 'own'), call),
    theirs: asWritten(textIn(fact, 'theirs'), call),
  }));
}

function textIn(fact: Fact, argument: string): string {
  const value = fact[argument];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Where in its first differing output the suspect differs. */
function slicesShown(detail: NodeDetail | null): Slices | null {
  for (const row of detail?.rows ?? []) {
    const found = row.npu?.name.startsWith('output') ? slicesOf(row) : undefined;
    if (found) return found;
  }
  return null;
}

function sureOf(suspect: Suspect, { probability, sure }: Answers, text: Texts): string {
  const { strong, weak, certainly, likely, told } = text.verdict;
  const by = suspect.strong ? strong : weak;
  const first = probability === null ? certainly(by) : likely(probability, by);
  return text.shell.sentences(first, told(sure));
}

/** The next call in line, with what speaks for it. */
function rivalOf(all: readonly Suspect[], shown: Suspect, text: Texts): Rival | null {
  const other = eachCallOnce(all).find(
    ({ side, name }) => side !== shown.side || name !== shown.name,
  );
  if (!other) return null;
  const { probability } = answersOf(factsOf(other.evidence));
  const { strong, weak, rival } = text.verdict;
  const by = other.strong ? strong : weak;
  const label = rival(calledOf(other, text), probability === null ? by : `${probability} %`);
  return { suspect: other, label };
}

/** More steps than these nobody reads. */
const STEPS = 2;

/** On which steps and ranks the fault is, the first ones by their numbers. */
function placesOf(graphs: readonly GraphPair[], text: Texts): string {
  const wrong = graphs.filter(({ outcome }) => outcome === 'fault');
  const following = graphs.filter(({ outcome }) => outcome === 'follows').length;
  if (graphs.length < 2 || wrong.length === 0) return '';
  const steps = [...new Set(wrong.map(({ step }) => step))].sort((a, b) => a - b);
  const named = steps.slice(0, STEPS).map((step) => {
    const ranks = wrong.filter((pair) => pair.step === step).map(({ rank }) => rank);
    return text.verdict.onRanks(step, rankList(ranks.sort((a, b) => a - b)));
  });
  const more = steps.length - named.length;
  const { wrongIn, followsIn } = text.verdict;
  return text.shell.sentences(
    wrongIn(named.join(text.shell.separator), more),
    following > 0 ? followsIn(formatCount(following)) : '',
  );
}
