// What was found, and how to walk through it.

import type { Graph } from '../data/graph';
import { nextHit, previousHit } from '../data/search';
import { bySeverity, findIn, type Find } from './find';
import type { SearchResult, Side } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';

/** Nodes of one side to step through, in execution order. */
export interface Hits {
  readonly source: 'search' | 'legend';
  /** The query, or the entry of the legend, that these are the hits of. */
  readonly key: string;
  readonly side: Side;
  /** In execution order. */
  readonly indices: Int32Array;
  /** In the order to step through them. */
  readonly sequence: Int32Array;
  /** What was asked for is no regular expression. */
  readonly isInvalid?: boolean;
  /** Why the server did not search. */
  readonly failure?: string;
  /** Place in `sequence` of the hit shown last, -1 before the first step. */
  readonly position: number;
}

/** Nodes found in all steps and ranks. */
export interface FileHits {
  readonly result: SearchResult;
  readonly position: number;
}

const NONE = new Int32Array();

export function noHits(find: Find, side: Side): Hits {
  return { source: 'search', key: find.text, side, indices: NONE, sequence: NONE, position: -1 };
}

/** What is found in one graph. */
export function hitsIn(graph: Graph, find: Find, side: Side, microStep: number): Hits {
  try {
    return ordered(graph, findIn(graph, find, microStep), find, side);
  } catch (error) {
    if (error instanceof SyntaxError) return { ...noHits(find, side), isInvalid: true };
    throw error;
  }
}

/** The same of nodes that the server has found, in execution order. */
export function hitsAmong(graph: Graph, found: Int32Array, find: Find, microStep: number): Hits {
  const isSeen = (index: number) => microStep < 0 || graph.microStep[index] === microStep;
  return ordered(graph, found.filter(isSeen), find, find.side);
}

function ordered(graph: Graph, indices: Int32Array, find: Find, side: Side): Hits {
  const sequence = find.order === 'severity' ? bySeverity(graph, indices) : indices;
  return { ...noHits(find, side), indices, sequence };
}

/** The place of the next hit as seen from the selected node, going round; -1 without hits. */
export function stepInGraph(
  hits: Hits | null,
  selected: NodeRef | null,
  direction: 1 | -1,
): number {
  if (!hits || hits.indices.length === 0) return -1;
  const { indices, sequence, side } = hits;
  const from = selected?.side === side ? selected.index : (sequence[hits.position] ?? -1);
  if (indices === sequence) {
    return direction === 1 ? nextHit(indices, from) : previousHit(indices, from);
  }
  return around(sequence.indexOf(from), direction, sequence.length);
}

/** The same among nodes of all steps and ranks, as seen from the one shown last. */
export function stepInFile({ result, position }: FileHits, direction: 1 | -1): number {
  const { length } = result.index;
  return length === 0 ? -1 : around(position, direction, length);
}

function around(position: number, direction: 1 | -1, length: number): number {
  const from = position < 0 && direction < 0 ? 0 : position;
  return (from + direction + length) % length;
}
