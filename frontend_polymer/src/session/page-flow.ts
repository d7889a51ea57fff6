// Where tensors come from and go, in a page without a server: the rules of docs/design/http-api.md.

import { create } from '@bufbuild/protobuf';
import { CALL_ROLES, GRADES } from '../data/codes';
import type { Graph } from '../data/graph';
import type { PageGraphs } from '../data/page';
import {
  FlowLinkSchema,
  NodeFlowSchema,
  Section,
  Side,
  TensorFlowSchema,
  type FlowLink,
  type NodeFlow,
  type Parameter,
} from '../generated/graph_pb';

const MOST_TAKERS = 50;

interface Tensor {
  readonly node: number;
  /** Last node of the subtree. */
  readonly end: number;
  readonly isOutput: boolean;
  readonly of: Parameter;
  readonly keys: Keys;
}

/** Equal keys are of one tensor; null where there is nothing to tell by. */
interface Keys {
  readonly checksum: string | null;
  readonly statistics: string | null;
  readonly values: string | null;
  readonly isFlat: boolean;
}

const LIKENESSES = ['checksum', 'statistics', 'values'] as const;
type Likeness = (typeof LIKENESSES)[number];

interface Found {
  readonly tensor: Tensor;
  readonly evidence: Likeness;
  readonly certainty: 'sure' | 'likely' | 'guess';
}

/** All inputs and outputs of one side, by what tells them apart. */
class Tensors {
  readonly of = new Map<number, Tensor[]>();
  private readonly alike = new Map<string, Tensor[]>();

  add(tensor: Tensor): void {
    push(this.of, tensor.node, tensor);
    for (const likeness of LIKENESSES) {
      const key = tensor.keys[likeness];
      if (key !== null) push(this.alike, `${likeness} ${key}`, tensor);
    }
  }

  like(tensor: Tensor, likeness: Likeness): Tensor[] {
    const key = tensor.keys[likeness];
    if (key === null) return [];
    const found = this.alike.get(`${likeness} ${key}`) ?? [];
    return found.filter(({ node }) => node !== tensor.node);
  }
}

const known = new WeakMap<PageGraphs, Map<Side, Promise<Tensors>>>();

export async function flowOf(graphs: PageGraphs, side: Side, index: number): Promise<NodeFlow> {
  const graph = graphs.graph(side)!;
  const tensors = await tensorsOf(graphs, side);
  const own = tensors.of.get(index) ?? [];
  return create(NodeFlowSchema, {
    revision: graph.revision,
    tensors: [...own]
      .sort((one, other) => Number(one.isOutput) - Number(other.isOutput))
      .map((tensor) => {
        const maker = makerOf(tensor, tensors);
        return create(TensorFlowSchema, {
          section: tensor.of.section,
          name: tensor.of.name,
          ...(maker ? { maker: linkOf(graph, maker) } : {}),
          takers: takersOf(tensor, tensors)
            .slice(0, MOST_TAKERS)
            .map((taker) => linkOf(graph, taker)),
        });
      }),
    trail: side === Side.NPU ? await trailTo(graphs, index) : [],
  });
}

function tensorsOf(graphs: PageGraphs, side: Side): Promise<Tensors> {
  const sides = known.get(graphs) ?? new Map<Side, Promise<Tensors>>();
  known.set(graphs, sides);
  let tensors = sides.get(side);
  if (!tensors) sides.set(side, (tensors = readTensors(graphs, side)));
  return tensors;
}

async function readTensors(graphs: PageGraphs, side: Side): Promise<Tensors> {
  const tensors = new Tensors();
  const graph = graphs.graph(side)!;
  for await (const { npu, bench, rows } of graphs.nodes()) {
    const node = (side === Side.BENCH ? bench : npu)?.index;
    if (node === undefined) continue;
    for (const row of rows) {
      const of = side === Side.BENCH ? row.bench : row.npu;
      const isWay = of?.section === Section.INPUT || of?.section === Section.OUTPUT;
      if (!of || !isWay || !isTensor(of)) continue;
      const isOutput = of.section === Section.OUTPUT;
      tensors.add({ node, end: graph.end[node]! - 1, isOutput, of, keys: keysOf(of) });
    }
  }
  return tensors;
}

/** Whatever else is passed has neither. */
function isTensor({ dtype, shape }: Parameter): boolean {
  return dtype !== '' || shape !== '';
}

function keysOf(of: Parameter): Keys {
  const numbers = [of.max, of.min, of.mean, of.norm];
  const isThere = (value: number | undefined) => value !== undefined && !Number.isNaN(value);
  const isFlat = isThere(of.max) && of.max === of.min;
  const elements = (of.shape.match(/\d+/g) ?? []).reduce(
    (product, text) => product * Number(text),
    1,
  );
  const look = `${of.shape} ${of.dtype}`;
  return {
    isFlat,
    checksum: of.md5 === '' ? null : `${of.md5} ${look}`,
    statistics: numbers.every(isThere) ? `${numbers.join(' ')} ${look}` : null,
    values:
      isFlat || !numbers.slice(0, 2).every(isThere) ? null : `${of.max} ${of.min} ${elements}`,
  };
}

/** The innermost call that put an input out before, or a module's output inside of it. */
function makerOf(tensor: Tensor, tensors: Tensors): Found | null {
  const { node, end, isOutput, keys } = tensor;
  if (isOutput && end === node) return null;
  let handed: Found | null = null;
  for (const evidence of LIKENESSES) {
    const same = tensors.like(tensor, evidence);
    const given = same.filter((one) =>
      isOutput ? one.isOutput && node < one.node && one.end <= end : one.isOutput && one.end < node,
    );
    if (given.length > 0) {
      const last = given.reduce((best, one) => (isLater(one, best) ? one : best));
      const inside = given.filter((one) => last.node <= one.node && one.end <= last.end);
      const made = inside.reduce((best, one) => (isSmaller(one, best) ? one : best));
      const isAlone = inside.length === given.length;
      return { tensor: made, evidence, certainty: certaintyOf(tensor, evidence, isAlone) };
    }
    const around = same.filter((one) => !one.isOutput && one.node < node && node <= one.end);
    if (around.length > 0 && !isOutput && handed === null) {
      const outer = around.reduce((best, one) => (one.node < best.node ? one : best));
      handed = { tensor: outer, evidence, certainty: keys.isFlat ? 'likely' : 'sure' };
    }
  }
  return handed;
}

/** Inner calls end before the outer ones around them. */
function isLater(one: Tensor, other: Tensor): boolean {
  return one.end !== other.end ? one.end > other.end : one.node < other.node;
}

function isSmaller(one: Tensor, other: Tensor): boolean {
  const size = one.end - one.node - (other.end - other.node);
  return size !== 0 ? size < 0 : one.node > other.node;
}

function certaintyOf({ keys }: Tensor, evidence: Likeness, isAlone: boolean): Found['certainty'] {
  if (keys.isFlat && evidence !== 'checksum') return 'guess';
  if (evidence === 'values') return isAlone ? 'likely' : 'guess';
  return isAlone ? 'sure' : 'likely';
}

/** The innermost calls that are given an output later, or a module's input inside of it. */
function takersOf(tensor: Tensor, tensors: Tensors): Found[] {
  const { node, end, isOutput, keys } = tensor;
  if (!isOutput && end === node) return [];
  const [first, last] = isOutput ? [end + 1, Infinity] : [node + 1, end];
  for (const evidence of LIKENESSES) {
    const same = tensors.like(tensor, evidence);
    const rivals = same.filter(
      (one) => one.isOutput && first <= one.node && !(one.node <= node && node <= one.end),
    );
    const until = Math.min(last, ...rivals.map((one) => one.end));
    const taken = same.filter((one) => !one.isOutput && first <= one.node && one.node <= until);
    const isOuter = (one: Tensor) =>
      taken.some((other) => one.node < other.node && other.node <= one.end);
    const inner = taken.filter((one) => !isOuter(one));
    if (inner.length === 0) continue;
    const isGuess = keys.isFlat && evidence !== 'checksum';
    const certainty = evidence === 'values' ? 'likely' : isGuess ? 'guess' : 'sure';
    const byNode = new Map(inner.reverse().map((one) => [one.node, one]));
    const ordered = [...byNode.values()].sort((one, other) => one.node - other.node);
    return ordered.map((one) => ({ tensor: one, evidence, certainty }));
  }
  return [];
}

/** The shortest way from the suspect that a node inherits from. */
async function trailTo(graphs: PageGraphs, index: number): Promise<FlowLink[]> {
  const { npu } = graphs;
  const goal = (await graphs.node(Side.NPU, index))?.verdict?.suspect?.index;
  if (goal === undefined) return [];
  const came = new Map([[index, index]]);
  const ahead = [index];
  for (const here of ahead) {
    if (came.has(goal)) break;
    const verdict = (await graphs.node(Side.NPU, here))?.verdict;
    for (const giver of verdict?.cameFrom ?? []) {
      if (came.has(giver.index)) continue;
      came.set(giver.index, here);
      ahead.push(giver.index);
    }
  }
  const way = [goal];
  while (way.at(-1) !== index) way.push(came.get(way.at(-1)!) ?? index);
  return way.map((node) => nodeLink(npu, node));
}

function linkOf(graph: Graph, { tensor, evidence, certainty }: Found): FlowLink {
  const link = nodeLink(graph, tensor.node);
  return Object.assign(link, { tensor: tensor.of.name, evidence, certainty });
}

function nodeLink(graph: Graph, index: number): FlowLink {
  return create(FlowLinkSchema, {
    index,
    name: graph.name(index),
    grade: GRADES[graph.grade[index]!]!,
    role: CALL_ROLES[graph.role[index]!]!,
  });
}

function push<K>(map: Map<K, Tensor[]>, key: K, tensor: Tensor): void {
  const list = map.get(key);
  if (list) list.push(tensor);
  else map.set(key, [tensor]);
}
