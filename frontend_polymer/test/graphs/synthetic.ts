import { create, toBinary } from '@bufbuild/protobuf';
import { Graph } from '../../src/data/graph';
import {
  Direction,
  Grade,
  Kind,
  SkeletonSchema,
  type CallRole,
  type Overflow,
} from '../../src/generated/graph_pb';

/** A node as a person would write it down. */
export interface Sketch {
  stem: string;
  kind?: Kind;
  direction?: Direction;
  call?: number;
  microStep?: number;
  grade?: Grade;
  error?: number;
  overflow?: Overflow;
  role?: CallRole;
  /** Nodes of both sides with the same key are matched. */
  key?: string;
  reason?: string;
  children?: Sketch[];
}

/** The protobuf messages for two sketched sides, encoded by the official library. */
export function encodePair(npu: Sketch, bench: Sketch | null): [Uint8Array, Uint8Array | null] {
  const sides = [flatten(npu), bench ? flatten(bench) : null] as const;
  const keys = sides.map((nodes) => new Map(nodes?.map(({ key }, index) => [key ?? '', index])));
  const encode = (nodes: Flat[], other: Map<string, number>) => {
    const stems = [...new Set(nodes.map(({ stem }) => stem))];
    const place = new Map(stems.map((stem, index) => [stem, index]));
    const reasons = [...new Set(nodes.flatMap(({ reason }) => reason ?? []))];
    const partner = nodes.map(({ key }) => (key === undefined ? undefined : other.get(key)));
    const isPair = bench !== null;
    return toBinary(
      SkeletonSchema,
      create(SkeletonSchema, {
        revision: 'r1',
        nodeCount: nodes.length,
        stems,
        stem: nodes.map(({ stem }) => place.get(stem)!),
        direction: nodes.map(({ direction }) => direction ?? Direction.NONE),
        call: nodes.map(({ call }) => call ?? 0),
        kind: nodes.map(({ kind }) => kind ?? Kind.MODULE),
        subtreeSize: nodes.map(({ size }) => size),
        microStep: nodes.map(({ microStep }) => microStep ?? 0),
        grade: nodes.map(({ grade }, index) =>
          isPair && partner[index] === undefined ? Grade.UNMATCHED : (grade ?? Grade.UNGRADED),
        ),
        partnerOffset: isPair
          ? partner.flatMap((at, index) => (at === undefined ? [] : at - index))
          : [],
        error: nodes.map(({ error }) => error ?? -1),
        overflow: nodes.some(({ overflow }) => overflow) ? nodes.map((n) => n.overflow ?? 0) : [],
        unmatchedReason: reasons.length
          ? nodes.map(({ reason }) => (reason === undefined ? 0 : reasons.indexOf(reason) + 1))
          : [],
        unmatchedReasons: reasons,
        role: nodes.some(({ role }) => role) ? nodes.map((n) => n.role ?? 0) : [],
      }),
    );
  };
  return [
    encode(sides[0], keys[1] ?? new Map<string, number>()),
    sides[1] && encode(sides[1], keys[0]!),
  ];
}

export function graphPair(npu: Sketch, bench: Sketch): [Graph, Graph] {
  const [first, second] = encodePair(npu, bench);
  return [Graph.decode(first), Graph.decode(second!)];
}

export function singleGraph(npu: Sketch): Graph {
  return Graph.decode(encodePair(npu, null)[0]);
}

type Flat = Sketch & { size: number };

export function flatten(root: Sketch): Flat[] {
  const nodes: Flat[] = [];
  const visit = (sketch: Sketch): number => {
    const flat: Flat = { ...sketch, size: 1 };
    nodes.push(flat);
    for (const child of sketch.children ?? []) flat.size += visit(child);
    return flat.size;
  };
  visit(root);
  return nodes;
}
