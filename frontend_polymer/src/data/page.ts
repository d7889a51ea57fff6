// A page that holds its own answers, packed, beside the program: see msprobe-build page.

import { fromBinary } from '@bufbuild/protobuf';
import {
  PageBlockSchema,
  PageStacksSchema,
  Side,
  type NodeDetail,
  type NodeRecord,
  type PageNode,
  type PageStacks,
  type ParameterRow,
} from '../generated/graph_pb';
import { Graph } from './graph';

/** Answers by their names. */
export interface Packed {
  readonly names: readonly string[];
  readonly read: (name: string) => Promise<Uint8Array<ArrayBuffer> | null>;
}

/** What the page holds; null when it has a server to ask. */
export function packedIn(page: Document): Packed | null {
  const parts = [...page.querySelectorAll<HTMLElement>('script[data-answer]')];
  if (parts.length === 0) return null;
  const texts = new Map(parts.map((part) => [part.dataset['answer'] ?? '', part.textContent]));
  return {
    names: [...texts.keys()],
    read: async (name) => {
      const text = texts.get(name);
      return text === undefined ? null : unpacked(text);
    },
  };
}

async function unpacked(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const STATISTICS = ['max', 'min', 'mean', 'norm'] as const;

/** The nodes of one step and rank as the page has them, put together again. */
export class PageGraphs {
  private readonly blocks = new Map<string, Promise<Map<number, NodeDetail>>>();
  private loadingStacks: Promise<PageStacks | null> | null = null;

  private constructor(
    private readonly packed: Packed,
    private readonly place: string,
    readonly npu: Graph,
    readonly bench: Graph | null,
  ) {}

  static async open(packed: Packed, place: string): Promise<PageGraphs | null> {
    const [npu, bench] = await Promise.all(
      [Side.NPU, Side.BENCH].map((side) => packed.read(`skeleton/${place}/${side}`)),
    );
    return npu
      ? new PageGraphs(packed, place, Graph.decode(npu), bench ? Graph.decode(bench) : null)
      : null;
  }

  graph(side: Side): Graph | null {
    return side === Side.BENCH ? this.bench : this.npu;
  }

  async node(side: Side, index: number): Promise<NodeDetail | null> {
    const partner = side === Side.BENCH ? this.bench?.partner[index] : undefined;
    if (partner !== undefined && partner >= 0) return this.node(Side.NPU, partner);
    const prefix = `nodes/${this.place}/${side}/`;
    const starts = this.starts(prefix).filter((start) => start <= index);
    const start = starts.at(-1);
    if (start === undefined) return null;
    return (await this.block(prefix + String(start))).get(index) ?? null;
  }

  /** All of them: npu nodes, then bench nodes without a partner. */
  async *nodes(): AsyncGenerator<NodeDetail> {
    for (const side of [Side.NPU, Side.BENCH]) {
      const prefix = `nodes/${this.place}/${side}/`;
      for (const start of this.starts(prefix)) {
        yield* (await this.block(prefix + String(start))).values();
      }
    }
  }

  private starts(prefix: string): number[] {
    return this.packed.names
      .filter((name) => name.startsWith(prefix))
      .map((name) => Number(name.slice(prefix.length)))
      .sort((one, other) => one - other);
  }

  private block(name: string): Promise<Map<number, NodeDetail>> {
    let block = this.blocks.get(name);
    if (!block) this.blocks.set(name, (block = this.read(name)));
    return block;
  }

  private async read(name: string): Promise<Map<number, NodeDetail>> {
    this.loadingStacks ??= this.packed
      .read(`stacks/${this.place}`)
      .then((bytes) => bytes && fromBinary(PageStacksSchema, bytes));
    const [bytes, stacks] = await Promise.all([this.packed.read(name), this.loadingStacks]);
    const { nodes } = fromBinary(PageBlockSchema, bytes ?? new Uint8Array());
    return new Map(nodes.map((node) => [node.index, this.restored(node, stacks)]));
  }

  private restored(node: PageNode, stacks: PageStacks | null): NodeDetail {
    const detail = node.detail!;
    detail.revision = this.npu.revision;
    const sides = [
      [detail.npu, this.npu, node.npuStack],
      [detail.bench, this.bench, node.benchStack],
    ] as const;
    for (const [record, graph, stack] of sides) {
      if (record && graph) complete(record, graph, stack, stacks);
    }
    for (const row of node.plainRows) restoreErrors(detail.rows[row]!);
    return detail;
  }
}

function complete(
  record: NodeRecord,
  graph: Graph,
  stack: number,
  stacks: PageStacks | null,
): void {
  record.name = graph.name(record.index);
  record.path = graph.ancestors(record.index).map((above) => graph.name(above));
  const places = stacks?.stacks[stack - 1]?.frames ?? [];
  record.stack = places.flatMap((place) => stacks?.frames[place] ?? []);
}

/** Differences and relative errors, as docs/design/metrics.md defines them. */
function restoreErrors({ npu, bench, comparison }: ParameterRow): void {
  if (!npu || !bench || !comparison) return;
  for (const name of STATISTICS) {
    const [n, b] = [npu[name], bench[name]];
    if (n === undefined || b === undefined) continue;
    const isEqual = n === b || (Number.isNaN(n) && Number.isNaN(b));
    const isBeyond = !isEqual && (b === Infinity || b === -Infinity);
    comparison[`${name}Diff`] = isEqual ? 0 : n - b;
    comparison[`${name}RelativeErr`] = isEqual
      ? 0
      : isBeyond
        ? Infinity
        : Math.abs(n - b) / Math.abs(b);
  }
}
