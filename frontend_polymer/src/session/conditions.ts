// What can be asked for as a text of its own. A row here is all that the search, the links, the
// panel and the sentence above the graph need; its words stand in `find.conditions` of each language.

import type { Graph } from '../data/graph';
import { OF_MODULES } from '../data/label';
import { Direction, Kind } from '../generated/graph_pb';

export interface TextCondition {
  /** Names it in links and in the server's search route. */
  readonly key: string;
  readonly longest: number;
  /** Decides for the nodes of a graph; without it only the server can tell. */
  readonly test?: (graph: Graph, wanted: string) => (index: number) => boolean;
  /** The only values there are. */
  readonly options?: readonly string[];
  /** What to choose from, in alphabetical order. */
  readonly choices?: (graph: Graph) => string[];
}

export const CONDITIONS = [
  // The last part of a stem: the class of a module or the operation of an API.
  { key: 'operator', longest: 200, test: hasOperator, choices: operatorsOf },
  { key: 'direction', longest: 10, test: hasDirection, options: ['forward', 'backward'] },
  // The path of a module, with or without its class: the module and everything in it.
  { key: 'below', longest: 300, test: isBelow, choices: modulePaths },
  // `model.py:193` in the stack of the call, or `model.py`; stacks come with the details of a node.
  { key: 'code', longest: 300 },
  // Of any tensor of the node; the skeleton of a graph holds none.
  { key: 'dtype', longest: 100 },
  { key: 'input_dtype', longest: 100 },
  { key: 'output_dtype', longest: 100 },
  { key: 'shape', longest: 100 },
] as const satisfies readonly TextCondition[];

export type ConditionKey = (typeof CONDITIONS)[number]['key'];

export const TEXT_CONDITIONS: readonly (TextCondition & { readonly key: ConditionKey })[] =
  CONDITIONS;

function hasOperator(graph: Graph, wanted: string): (index: number) => boolean {
  const operator = wanted.toLowerCase();
  const isWanted = graph.stems.map((stem) => {
    const name = stem.toLowerCase();
    return name === operator || name.endsWith(`.${operator}`);
  });
  return (index) => isWanted[graph.stem[index]!]!;
}

function isBelow(graph: Graph, wanted: string): (index: number) => boolean {
  const path = wanted.toLowerCase().replace(/^module\./, '');
  const isRoot = graph.stems.map((stem) => {
    const name = stem.toLowerCase();
    return name === path || name === `module.${path}` || modulePath(name) === path;
  });
  const inside = new Uint8Array(graph.count);
  for (let index = 0; index < graph.count; index++) {
    if (graph.kindOf(index) !== Kind.MODULE || !isRoot[graph.stem[index]!]) continue;
    inside.fill(1, index, graph.end[index]);
  }
  return (index) => inside[index] === 1;
}

/** `model.layers.1` of `Module.model.layers.1.LlamaDecoderLayer`. */
export function modulePath(stem: string): string {
  return stem.replace(OF_MODULES, '').replace(/\.?[^.]*$/, '');
}

/** The module that a node lies in, as a path; empty below the root. */
export function moduleAround(graph: Graph, index: number): string {
  let above = graph.parent[index]!;
  while (above >= 0 && graph.kindOf(above) !== Kind.MODULE) above = graph.parent[above]!;
  return above < 0 ? '' : modulePath(graph.stems[graph.stem[above]!]!);
}

/** The module itself, or the one around a call, as a path. */
export function moduleAt(graph: Graph, index: number): string {
  const isModule = graph.kindOf(index) === Kind.MODULE;
  const own = isModule ? modulePath(graph.stems[graph.stem[index]!]!) : '';
  return own === '' ? moduleAround(graph, index) : own;
}

function modulePaths(graph: Graph): string[] {
  // Names repeat: a text is looked at once for all nodes that have it.
  const isOfModule = new Uint8Array(graph.stems.length);
  for (let index = 0; index < graph.count; index++) {
    if (graph.kindOf(index) === Kind.MODULE) isOfModule[graph.stem[index]!] = 1;
  }
  const paths = new Set(graph.stems.filter((_, stem) => isOfModule[stem] === 1).map(modulePath));
  return [...paths].filter((path) => path !== '').sort((a, b) => a.localeCompare(b, 'en'));
}

function hasDirection(graph: Graph, wanted: string): (index: number) => boolean {
  const direction = wanted === 'backward' ? Direction.BACKWARD : Direction.FORWARD;
  return (index) => graph.directionOf(index) === direction;
}

/** What can be asked for as an operator. */
export function operatorsOf(graph: Graph): string[] {
  const names = graph.stems.map((stem) => stem.slice(stem.lastIndexOf('.') + 1));
  return [...new Set(names.filter((name) => name !== ''))].sort((one, other) =>
    one.localeCompare(other, 'en'),
  );
}
