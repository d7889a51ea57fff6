import {
  Grade,
  Overflow,
  Side,
  type DatabaseFile,
  type GraphPair,
  type Suspect,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { isLittleInCommon, isRounding } from '../../session/verdict';
import { create } from '../parts/create';
import { formatCount } from '../parts/format';
import { gradeBars, gradeStyle, overflowStyle, partStyle, type Part } from '../parts/grade-style';
import { gradeName, overflowName, type OverflowLevel } from '../parts/words';

const LEVELS: readonly OverflowLevel[] = [Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM];
const WRONG: readonly Grade[] = [Grade.SEVERE, Grade.SERIOUS, Grade.MODERATE];
const ERRORS: readonly Grade[] = [...WRONG, Grade.SLIGHT];

/** Where a graph stands in the map. */
export interface Place {
  readonly step: number;
  readonly rank: number;
}

/** What the cells of a map have in common. */
export interface Shown {
  readonly file: DatabaseFile;
  readonly text: Texts;
  /** The likeliest suspect of each graph that has one, by its place. */
  readonly suspects: ReadonlyMap<string, Suspect>;
  /** The place to begin at: of the first suspect, or of the first wrong graph. */
  readonly lead: string;
}

/** The worst level of overflow among these counts; none when nothing overflows or was checked. */
export function worstOverflow(counts: readonly number[]): Overflow {
  return LEVELS.find((level) => (counts[level] ?? 0) > 0) ?? Overflow.NONE;
}

/** The graph to look at first: the worst grade, then the most nodes of it, then the earliest. */
export function worstGraph(file: DatabaseFile): GraphPair | undefined {
  if (isJudged(file)) return firstJudgedWrong(file);
  const key = (pair: GraphPair) => [
    pair.worstGrade,
    pair.gradeCounts[pair.worstGrade] ?? 0,
    worstOverflow(pair.overflowCounts),
  ];
  let worst: GraphPair | undefined;
  for (const pair of file.graphs) {
    if (!worst || isGreater(key(pair), key(worst))) worst = pair;
  }
  return worst;
}

/** Where the first suspect is, else the first fault, else the first graph. */
function firstJudgedWrong({ verdict, graphs }: DatabaseFile): GraphPair | undefined {
  const lead = verdict?.suspects[0];
  const own = graphs.find(({ step, rank }) => step === lead?.step && rank === lead.rank);
  return own ?? graphs.find(({ outcome }) => outcome === 'fault') ?? graphs[0];
}

/** Whether anything is wrong there, so that one graph can be worse than another. */
export function isAnythingWrong({ worstGrade, overflowCounts }: GraphPair): boolean {
  return worstGrade > Grade.OK || worstOverflow(overflowCounts) !== Overflow.NONE;
}

/** The earliest graph with an error of moderate or worse: later ones may only follow from it. */
export function firstWrongGraph(file: DatabaseFile): GraphPair | undefined {
  if (isJudged(file)) return undefined;
  return file.graphs
    .filter(({ worstGrade }) => WRONG.includes(worstGrade))
    .sort((one, other) => one.step - other.step || one.rank - other.rank)[0];
}

function isGreater(one: readonly number[], other: readonly number[]): boolean {
  const place = one.findIndex((value, at) => value !== other[at]);
  return place >= 0 && one[place]! > other[place]!;
}

/** What the verdict says of a graph, as the map's cells do. */
export interface Outcome {
  readonly name: keyof Texts['outcomes'];
  readonly part: Part;
  /** The same without colours. */
  readonly sign: string;
}

/** From the one to look at first to the one that says least. */
export const OUTCOMES: readonly Outcome[] = [
  { name: 'fault', part: 'suspect', sign: '✕' },
  { name: 'follows', part: 'carrier', sign: '→' },
  { name: 'undecided', part: 'undecided', sign: '?' },
  { name: 'clean', part: 'clean', sign: '✓' },
  { name: 'unjudged', part: 'unjudged', sign: '–' },
];

export function outcomeOf({ outcome }: GraphPair): Outcome {
  return OUTCOMES.find(({ name }) => name === outcome) ?? OUTCOMES.at(-1)!;
}

/** Whether a verdict was given on the graphs, which then says more than their grades. */
export function isJudged(file: DatabaseFile): boolean {
  return file.graphs.some(({ outcome }) => outcome !== '');
}

/** What all cells of a file's map need. */
export function shownOf(file: DatabaseFile, text: Texts): Shown {
  const suspects = new Map<string, Suspect>();
  for (const suspect of isRounding(file.verdict) ? [] : (file.verdict?.suspects ?? [])) {
    const key = placeKey(suspect);
    if (!suspects.has(key)) suspects.set(key, suspect);
  }
  const first = file.verdict?.suspects[0] ?? firstWrongGraph(file);
  return { file, text, suspects, lead: first ? placeKey(first) : '' };
}

/** A button that carries the place of its graph. */
export function graphCell(pair: GraphPair, { file, text, suspects, lead }: Shown): HTMLElement {
  const { step, rank } = pair;
  const button = create('button', 'cell');
  button.type = 'button';
  button.tabIndex = -1;
  Object.assign(button.dataset, { step, rank, grade: pair.worstGrade });
  const level = worstOverflow(pair.overflowCounts);
  const isGraded = pair.worstGrade !== Grade.UNGRADED;
  const outcome = isJudged(file) ? outcomeOf(pair) : null;
  if (outcome) button.style.cssText = partStyle(outcome.part);
  else if (!isGraded && level !== Overflow.NONE) button.style.cssText = overflowStyle(level);
  else button.style.cssText = gradeStyle(isHollow(pair) ? Grade.UNMATCHED : pair.worstGrade);
  const bars = create('span', 'bars');
  bars.style.cssText = gradeBars(pair.worstGrade);
  if (outcome) button.dataset['outcome'] = outcome.name;
  button.append(outcome ? create('span', 'sign', outcome.sign) : bars);
  if (level !== Overflow.NONE) button.append(create('span', 'flag', '!'));
  if (file.isComparison && pair.benchNodes === 0) button.classList.add('alone');
  const key = placeKey(pair);
  const suspect = suspects.get(key);
  if (suspect) button.append(suspectMark(suspect, pair));
  const told = suspect ? [text.overview.suspect(suspect.name)] : [];
  if (key === lead) {
    button.classList.add('lead');
    if (!suspect) told.push(text.overview.leads);
  }
  const said = outcome ? [text.outcomes[outcome.name]] : [];
  const lines = [text.overview.cell(step, rank), ...said, ...facts(pair, file, text), ...told];
  button.title = lines.join('\n');
  button.ariaLabel = button.title.replaceAll('\n', ', ');
  return button;
}

/** Where among the nodes of its graph a suspect lies, the first at the left. */
function suspectMark({ side, index }: Suspect, pair: GraphPair): HTMLElement {
  const nodes = side === Side.BENCH ? pair.benchNodes : pair.npuNodes;
  const mark = create('span', 'mark');
  mark.style.left = `${10 + (80 * index) / Math.max(1, nodes)}%`;
  return mark;
}

/** A graph of which most was not compared must not look clean. */
function isHollow(pair: GraphPair): boolean {
  return isLittleInCommon(pair) && !WRONG.includes(pair.worstGrade);
}

/** What is remarkable about a graph, worst first. */
function facts(pair: GraphPair, file: DatabaseFile, text: Texts): string[] {
  const named = (name: string, count: number) => `${name}: ${formatCount(count)}`;
  const lines = ERRORS.map(
    (grade) => [gradeName(grade, text), pair.gradeCounts[grade] ?? 0] as const,
  );
  const levels = LEVELS.map((level) => {
    const name = text.overview.overflow(overflowName(level, text).name);
    return [name, pair.overflowCounts[level] ?? 0] as const;
  });
  const unmatched = [
    [text.overview.unmatchedDebug, pair.npuUnmatched],
    [text.overview.unmatchedReference, pair.benchUnmatched],
  ] as const;
  const counted = [...lines, ...(file.isComparison ? unmatched : []), ...levels]
    .filter(([, count]) => count > 0)
    .map(([name, count]) => named(name, count));
  const isAlone = file.isComparison && pair.benchNodes === 0;
  return [
    ...(isAlone ? [text.overview.oneSided] : [gradeName(pair.worstGrade, text)]),
    ...counted,
    named(text.overview.nodes, pair.npuNodes),
  ];
}

/** Where there is no graph, and why not. */
export function noCell(
  { step, rank }: Place,
  reason: string | undefined,
  text: Texts,
): HTMLElement {
  const cell = create('span', reason === undefined ? 'none' : 'none failed');
  const why = reason === undefined ? text.overview.missing : text.overview.failed(reason);
  cell.textContent = reason === undefined ? '' : '×';
  cell.title = `${text.overview.cell(step, rank)}: ${why}`;
  cell.role = 'img';
  cell.ariaLabel = cell.title;
  return cell;
}

export function placeKey({ step, rank }: Place): string {
  return `${step}/${rank}`;
}
