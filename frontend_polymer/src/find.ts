// What a user looks for, and which nodes of a graph that is.

import { GRADES } from './data/codes';
import type { Graph } from './data/graph';
import { Search } from './data/search';
import { Grade, Side, type Overflow } from './generated/graph_pb';

/** Everything that is set must hold; an empty list or text allows anything. */
export interface Find {
  readonly text: string;
  /** `text` is a regular expression. */
  readonly isPattern: boolean;
  readonly side: Side;
  readonly grades: readonly Grade[];
  readonly overflows: readonly Overflow[];
  /** Names of the reasons for which a node is unmatched. */
  readonly reasons: readonly string[];
  /** The last part of a stem, the class of a module or the operation of an API. */
  readonly operator: string;
  /** Of any tensor of the node; only the server knows them. */
  readonly dtype: string;
  readonly shape: string;
  /** In the graph that is shown, or in all steps and ranks of the file. */
  readonly scope: 'graph' | 'file';
  readonly order: 'execution' | 'severity';
}

export const NO_FIND: Find = {
  text: '',
  isPattern: false,
  side: Side.NPU,
  grades: [],
  overflows: [],
  reasons: [],
  operator: '',
  dtype: '',
  shape: '',
  scope: 'graph',
  order: 'execution',
};

export function isEmptyFind(find: Find): boolean {
  const { text, grades, overflows, reasons, operator } = find;
  return (
    !text &&
    !operator &&
    !asksForTensors(find) &&
    grades.length + overflows.length + reasons.length === 0
  );
}

/** Whether tensors decide, which the skeleton of a graph does not hold. */
export function asksForTensors({ dtype, shape }: Find): boolean {
  return dtype !== '' || shape !== '';
}

const searches = new WeakMap<Graph, Search>();

/** The nodes that are looked for, in execution order. Throws a SyntaxError for a bad pattern. */
export function findIn(graph: Graph, find: Find, microStep: number): Int32Array {
  let search = searches.get(graph);
  if (!search) searches.set(graph, (search = new Search(graph)));
  const { text, isPattern, grades, overflows, reasons, operator } = find;
  const places = reasons.map((reason) => graph.unmatchedReasons.indexOf(reason));
  const hits = search.find({
    ...{ text, isPattern, microStep },
    ...(grades.length > 0 ? { grades: new Set(grades) } : {}),
    ...(overflows.length > 0 ? { overflows: new Set(overflows) } : {}),
    ...(places.length > 0 ? { reasons: new Set(places.filter((place) => place >= 0)) } : {}),
  });
  if (operator === '') return hits;
  const wanted = operator.toLowerCase();
  const isWanted = graph.stems.map((stem) => {
    const name = stem.toLowerCase();
    return name === wanted || name.endsWith(`.${wanted}`);
  });
  return hits.filter((index) => isWanted[graph.stem[index]!]);
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

/** What can be asked for as an operator, in alphabetical order. */
export function operatorsOf(graph: Graph): string[] {
  const names = graph.stems.map((stem) => stem.slice(stem.lastIndexOf('.') + 1));
  return [...new Set(names.filter((name) => name !== ''))].sort((one, other) =>
    one.localeCompare(other, 'en'),
  );
}

/** What the server's search route takes. */
export function searchQuery(find: Find): Record<string, string | number> {
  return {
    side: find.side,
    name: find.text,
    regex: find.isPattern ? 1 : 0,
    operator: find.operator,
    dtype: find.dtype,
    shape: find.shape,
    grade: find.grades.join(','),
    overflow: find.overflows.join(','),
    reason: find.reasons.join(','),
    order: find.order,
    limit: 1000,
  };
}
