// What a user looks for, and which nodes of a graph that is.

import { GRADES } from '../data/codes';
import type { Graph } from '../data/graph';
import { Search } from '../data/search';
import { Grade, Side, type Overflow } from '../generated/graph_pb';
import { TEXT_CONDITIONS, type ConditionKey } from './conditions';

/** Everything that is set must hold; an empty list or text allows anything. */
export interface Find extends Readonly<Record<ConditionKey, string>> {
  readonly text: string;
  /** `text` is a regular expression. */
  readonly isPattern: boolean;
  readonly side: Side;
  readonly grades: readonly Grade[];
  readonly overflows: readonly Overflow[];
  /** Names of the reasons for which a node is unmatched. */
  readonly reasons: readonly string[];
  /** In the graph that is shown, or in all steps and ranks of the file. */
  readonly scope: 'graph' | 'file';
  readonly order: 'execution' | 'severity';
}

const NO_TEXTS = Object.fromEntries(TEXT_CONDITIONS.map(({ key }) => [key, '']));

export const NO_FIND: Find = {
  ...(NO_TEXTS as Record<ConditionKey, string>),
  text: '',
  isPattern: false,
  side: Side.NPU,
  grades: [],
  overflows: [],
  reasons: [],
  scope: 'graph',
  order: 'execution',
};

export function isEmptyFind(find: Find): boolean {
  const { text, grades, overflows, reasons } = find;
  const isAsked = TEXT_CONDITIONS.some(({ key }) => find[key] !== '');
  return !text && !isAsked && grades.length + overflows.length + reasons.length === 0;
}

/** Whether a word names a file of code or a line of one. */
export function isCodePlace(word: string): boolean {
  return /^[^\s:]+\.py(:\d+)?$/i.test(word);
}

/** What is typed as `model.py:193` is looked for in stacks, the other words in names. */
export function asTyped(find: Find): Find {
  if (find.isPattern || find.code !== '') return find;
  const words = find.text.trim().split(/\s+/);
  const place = words.findIndex(isCodePlace);
  if (place < 0) return find;
  return { ...find, code: words[place]!, text: words.toSpliced(place, 1).join(' ') };
}

/** Whether what decides is not in the skeleton of a graph: tensors, and stacks. */
export function asksForDetails(find: Find): boolean {
  return TEXT_CONDITIONS.some(({ key, test }) => !test && find[key] !== '');
}

const searches = new WeakMap<Graph, Search>();

/** The index of a graph's names; making it takes longer than a search that has it. */
export function searchOf(graph: Graph): Search {
  let search = searches.get(graph);
  if (!search) searches.set(graph, (search = new Search(graph)));
  return search;
}

/** The nodes that are looked for, in execution order. Throws a SyntaxError for a bad pattern. */
export function findIn(graph: Graph, find: Find, microStep: number): Int32Array {
  const search = searchOf(graph);
  const { text, isPattern, grades, overflows, reasons } = find;
  const places = reasons.map((reason) => graph.unmatchedReasons.indexOf(reason));
  const hits = search.find({
    ...{ text, isPattern, microStep },
    ...(grades.length > 0 ? { grades: new Set(grades) } : {}),
    ...(overflows.length > 0 ? { overflows: new Set(overflows) } : {}),
    ...(places.length > 0 ? { reasons: new Set(places.filter((place) => place >= 0)) } : {}),
  });
  const tests = TEXT_CONDITIONS.flatMap(({ key, test }) =>
    test && find[key] !== '' ? [test(graph, find[key])] : [],
  );
  return tests.length === 0 ? hits : hits.filter((index) => tests.every((test) => test(index)));
}

/** The same nodes, the worst first; unmatched ones come last, for nothing is known of them. */
export function bySeverity(graph: Graph, hits: Int32Array): Int32Array {
  const severity = (index: number) => {
    const grade = GRADES[graph.grade[index]!]!;
    return grade === Grade.UNMATCHED ? -1 : grade;
  };
  return Int32Array.from(hits).sort(
    (one, other) =>
      severity(other) - severity(one) || graph.error[other]! - graph.error[one]! || one - other,
  );
}

/** What the server's search route takes. */
export function searchQuery(find: Find): Record<string, string | number> {
  return {
    side: find.side,
    name: find.text,
    regex: find.isPattern ? 1 : 0,
    ...textsOf(find),
    grade: find.grades.join(','),
    overflow: find.overflows.join(','),
    reason: find.reasons.join(','),
    order: find.order,
    limit: 1000,
  };
}

/** The texts that are asked for, by their conditions. */
export function textsOf(find: Find): Record<ConditionKey, string> {
  const texts = TEXT_CONDITIONS.map(({ key }) => [key, find[key]]);
  return Object.fromEntries(texts) as Record<ConditionKey, string>;
}
