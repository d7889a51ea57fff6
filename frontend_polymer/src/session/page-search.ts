// The search of the server and one node across ranks, in a page without a server.

import { create } from '@bufbuild/protobuf';
import { GRADES, OVERFLOWS } from '../data/codes';
import type { Graph } from '../data/graph';
import type { PageGraphs } from '../data/page';
import {
  Grade,
  Kind,
  NodeAcrossSchema,
  SearchResultSchema,
  Section,
  Side,
  type GraphPair,
  type NodeAcross,
  type NodeDetail,
  type Parameter,
  type SearchResult,
  type StackFrame,
} from '../generated/graph_pb';
import { TEXT_CONDITIONS } from './conditions';
import { bySeverity, findIn, NO_FIND, type Find } from './find';

const RELATIVE_ERRORS = [
  ...([
    'maxRelativeErr',
    'minRelativeErr',
    'meanRelativeErr',
    'normRelativeErr',
    'relativeDifference',
  ] as const),
];

export interface Place {
  readonly pair: GraphPair;
  readonly graphs: PageGraphs;
}

interface Hit {
  readonly place: Place;
  readonly side: Side;
  readonly graph: Graph;
  readonly index: number;
}

/** What the search route of the server takes and answers. */
export async function searchPage(
  places: readonly Place[],
  query: URLSearchParams,
  revision: string,
): Promise<SearchResult> {
  const find = findOf(query);
  const hits: Hit[] = [];
  for (const place of places) {
    for (const side of [Side.NPU, Side.BENCH]) {
      const graph = place.graphs.graph(side);
      if (!graph || !isWanted(query, 'side', side)) continue;
      const { step, rank } = place.pair;
      if (!isWanted(query, 'step', step) || !isWanted(query, 'rank', rank)) continue;
      const found = await withTensors(place.graphs, side, find, findIn(graph, find, -1));
      const ordered = find.order === 'severity' ? bySeverity(graph, found) : found;
      for (const index of ordered) hits.push({ place, side, graph, index });
    }
  }
  if (find.order === 'severity') hits.sort((one, other) => severity(other) - severity(one));
  const offset = Number(query.get('cursor') ?? 0);
  const end = offset + Number(query.get('limit') ?? 200);
  const page = hits.slice(offset, end);
  return create(SearchResultSchema, {
    revision,
    step: page.map(({ place }) => place.pair.step),
    rank: page.map(({ place }) => place.pair.rank),
    side: page.map(({ side }) => side),
    index: page.map(({ index }) => index),
    name: page.map(({ graph, index }) => graph.name(index)),
    grade: page.map(({ graph, index }) => graph.grade[index]!),
    error: page.map(({ graph, index }) => graph.error[index]!),
    overflow: page.map(({ graph, index }) => graph.overflow[index]!),
    unmatchedReason: page.map(
      ({ graph, index }) => graph.unmatchedReasons[graph.unmatchedReason[index]!] ?? '',
    ),
    module: page.map(({ graph, index }) => stemAround(graph, index)),
    next: end < hits.length ? String(end) : '',
    total: hits.length,
  });
}

/** Stem of the module around a node, empty below the root. */
function stemAround(graph: Graph, index: number): string {
  let above = graph.parent[index]!;
  while (above >= 0 && graph.kindOf(above) !== Kind.MODULE) above = graph.parent[above]!;
  return above < 0 ? '' : graph.stems[graph.stem[above]!]!;
}

function severity({ graph, index }: Hit): number {
  const grade = graph.gradeOf(index);
  return grade === Grade.UNMATCHED ? -1 : grade + (graph.error[index]! + 1) / 4;
}

function isWanted(query: URLSearchParams, key: string, value: number): boolean {
  const wanted = query.get(key);
  return wanted === null || wanted === '' || Number(wanted) === value;
}

function findOf(query: URLSearchParams): Find {
  const list = (key: string) => (query.get(key) ?? '').split(',').filter((part) => part !== '');
  const codes = <T extends number>(key: string, all: readonly T[]) =>
    all.filter((code) => list(key).includes(String(code)));
  const texts = TEXT_CONDITIONS.map(({ key }) => [key, query.get(key) ?? '']);
  return {
    ...NO_FIND,
    ...(Object.fromEntries(texts) as Pick<Find, (typeof TEXT_CONDITIONS)[number]['key']>),
    text: query.get('name') ?? '',
    isPattern: query.get('regex') === '1',
    grades: codes('grade', GRADES),
    overflows: codes('overflow', OVERFLOWS),
    reasons: list('reason'),
    order: query.get('order') === 'severity' ? 'severity' : 'execution',
  };
}

const OF_TENSORS = {
  dtype: { sections: null, column: 'dtype' },
  input_dtype: { sections: [Section.INPUT, Section.PARAMETERS], column: 'dtype' },
  output_dtype: { sections: [Section.OUTPUT, Section.PARAMETERS_GRAD], column: 'dtype' },
  shape: { sections: null, column: 'shape' },
} as const;

/** Those of them whose tensors are as asked for. */
async function withTensors(
  graphs: PageGraphs,
  side: Side,
  find: Find,
  found: Int32Array,
): Promise<Int32Array> {
  const asked = Object.entries(OF_TENSORS).filter(([key]) => find[key as keyof Find] !== '');
  if (asked.length === 0 && find.code === '') return found;
  const fits = new Set<number>();
  for await (const detail of graphs.nodes()) {
    const record = side === Side.BENCH ? detail.bench : detail.npu;
    const index = record?.index;
    if (find.code !== '' && !record?.stack.some((frame) => isAt(frame, find.code))) continue;
    const has = ([key, { sections, column }]: (typeof asked)[number]) =>
      detail.rows.some((row) => {
        const of = side === Side.BENCH ? row.bench : row.npu;
        const isThere = of && (!sections || (sections as readonly Section[]).includes(of.section));
        return isThere && isSame(of, column, String(find[key as keyof Find]));
      });
    if (index !== undefined && asked.every(has)) fits.add(index);
  }
  return found.filter((index) => fits.has(index));
}

/** Whether a frame is of a file, or of its line, given by the end of its path. */
function isAt({ file, line }: StackFrame, code: string): boolean {
  const wanted = code.toLowerCase();
  return [file, `${file}:${line}`].some((place) =>
    `/${place.toLowerCase()}`.endsWith(`/${wanted}`),
  );
}

function isSame(of: Parameter, column: 'dtype' | 'shape', wanted: string): boolean {
  const [value, text] = [of[column], wanted].map((one) => one.replace(/ /g, ''));
  return value === text || value === `torch.${text}` || value === `[${text}]`;
}

/** The nodes of one name in all steps and ranks of the page. */
export async function acrossPage(
  places: readonly Place[],
  name: string,
  side: Side,
  revision: string,
): Promise<NodeAcross> {
  const result = create(NodeAcrossSchema, { revision });
  for (const { pair, graphs } of places) {
    const graph = graphs.graph(side);
    for (let index = 0; graph && index < graph.count; index++) {
      if (graph.name(index) !== name) continue;
      const detail = await graphs.node(side, index);
      result.step.push(pair.step);
      result.rank.push(pair.rank);
      result.index.push(index);
      result.grade.push(graph.grade[index]!);
      result.error.push(graph.error[index]!);
      result.overflow.push(graph.overflow[index]!);
      for (const key of RELATIVE_ERRORS) result[key].push(worst(detail, key));
    }
  }
  return result;
}

/** The largest of the outputs, NaN when one of them is, -1 without any. */
function worst(detail: NodeDetail | null, key: (typeof RELATIVE_ERRORS)[number]): number {
  const outputs = (detail?.rows ?? []).filter(
    ({ npu }) => npu?.section === Section.OUTPUT || npu?.section === Section.PARAMETERS_GRAD,
  );
  const values = outputs.flatMap(({ comparison }) => comparison?.[key] ?? []);
  return values.some(Number.isNaN) ? NaN : Math.max(-1, ...values);
}
