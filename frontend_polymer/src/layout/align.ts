import type { Graph } from '../data/graph';
import { longestIncreasing } from './increasing';
import { UNITS_PER_ROW, type Rows } from './rows';
import type { Graphs, PerSide } from './sides';

export interface AlignInput {
  readonly graphs: Graphs;
  /** From `counterparts`. */
  readonly beside: PerSide<Int32Array>;
  /** 1 for each unfolded node. */
  readonly open: PerSide<Uint8Array>;
  /** Only the root's subtrees of this micro-step; -1 for all. */
  readonly microStep: number;
}

/**
 * Lays both hierarchies out as one sequence of rows, like a side-by-side diff.
 *
 * Inside a module that is open on both sides, children with their counterpart in the same module
 * share rows, as many as possible without changing the order of execution on either side. All others
 * get a row of their own with a gap opposite: those without counterpart, those whose counterpart is
 * elsewhere or was executed in another order, and what is open on one side only.
 */
export function align(input: AlignInput): Rows {
  const { graphs, open } = input;
  const [npu, bench] = graphs;
  const placement = new Placement(
    input,
    visible(npu, open[0]) + (bench ? visible(bench, open[1]) : 0),
  );
  placement.place(0, bench ? 0 : -1, 0, -1);
  return placement.rows();
}

/** Nodes that are unfolded: an upper bound on the rows of one side. */
function visible(graph: Graph, open: Uint8Array): number {
  let count = 0;
  for (let index = 0; index < graph.count; count++) {
    index = open[index] === 1 ? index + 1 : graph.end[index]!;
  }
  return count;
}

class Placement {
  private count = 0;
  private unit = 0;
  private readonly npuNode: Int32Array;
  private readonly benchNode: Int32Array;
  private readonly depth: Uint16Array;
  private readonly parent: Int32Array;
  private readonly end: Int32Array;
  private readonly top: Float64Array;
  private readonly bottom: Float64Array;
  private readonly npuRow: Int32Array;
  private readonly benchRow: Int32Array;

  constructor(
    private readonly input: AlignInput,
    capacity: number,
  ) {
    this.npuNode = new Int32Array(capacity);
    this.benchNode = new Int32Array(capacity);
    this.depth = new Uint16Array(capacity);
    this.parent = new Int32Array(capacity);
    this.end = new Int32Array(capacity);
    this.top = new Float64Array(capacity);
    this.bottom = new Float64Array(capacity);
    this.npuRow = new Int32Array(input.graphs[0].count).fill(-1);
    this.benchRow = new Int32Array(input.graphs[1]?.count ?? 0).fill(-1);
  }

  rows(): Rows {
    const { count } = this;
    return {
      count,
      node: [this.npuNode.subarray(0, count), this.benchNode.subarray(0, count)],
      rowOf: [this.npuRow, this.benchRow],
      depth: this.depth.subarray(0, count),
      parent: this.parent.subarray(0, count),
      end: this.end.subarray(0, count),
      top: this.top.subarray(0, count),
      bottom: this.bottom.subarray(0, count),
      height: this.unit,
    };
  }

  /** Places a node of either side, or of both, and everything unfolded below. */
  place(npu: number, bench: number, depth: number, parent: number): void {
    const row = this.count++;
    this.npuNode[row] = npu;
    this.benchNode[row] = bench;
    this.depth[row] = depth;
    this.parent[row] = parent;
    this.top[row] = this.unit;
    this.unit += UNITS_PER_ROW;
    if (npu >= 0) this.npuRow[npu] = row;
    if (bench >= 0) this.benchRow[bench] = row;

    const npuOpen = npu >= 0 && this.isOpen(0, npu);
    const benchOpen = bench >= 0 && this.isOpen(1, bench);
    if (npuOpen && benchOpen) this.placeBoth(npu, bench, row);
    else if (npuOpen) this.placeNpu(npu + 1, this.endOf(0, npu), row);
    else if (benchOpen) this.placeBench(bench + 1, this.endOf(1, bench), row);
    if (npuOpen || benchOpen) this.unit++;
    this.end[row] = this.count;
    this.bottom[row] = this.unit;
  }

  private isOpen(side: 0 | 1, node: number): boolean {
    return this.input.open[side][node] === 1 && this.endOf(side, node) > node + 1;
  }

  private endOf(side: 0 | 1, node: number): number {
    return this.input.graphs[side]!.end[node]!;
  }

  private isShown(side: 0 | 1, node: number): boolean {
    const { microStep, graphs } = this.input;
    const graph = graphs[side]!;
    return microStep < 0 || graph.parent[node] !== 0 || graph.microStep[node] === microStep;
  }

  private placeNpu(from: number, to: number, parent: number): void {
    for (let child = from; child < to; child = this.endOf(0, child)) {
      if (this.isShown(0, child)) this.place(child, -1, this.depth[parent]! + 1, parent);
    }
  }

  private placeBench(from: number, to: number, parent: number): void {
    for (let child = from; child < to; child = this.endOf(1, child)) {
      if (this.isShown(1, child)) this.place(-1, child, this.depth[parent]! + 1, parent);
    }
  }

  private placeBoth(npu: number, bench: number, parent: number): void {
    let nextNpu = npu + 1;
    let nextBench = bench + 1;
    for (const [child, other] of this.anchors(npu, bench)) {
      this.placeNpu(nextNpu, child, parent);
      this.placeBench(nextBench, other, parent);
      this.place(child, other, this.depth[parent]! + 1, parent);
      nextNpu = this.endOf(0, child);
      nextBench = this.endOf(1, other);
    }
    this.placeNpu(nextNpu, this.endOf(0, npu), parent);
    this.placeBench(nextBench, this.endOf(1, bench), parent);
  }

  /** Children that share a row, in order. */
  private anchors(npu: number, bench: number): [child: number, other: number][] {
    const { graphs, beside } = this.input;
    const pairs: [number, number][] = [];
    const end = this.endOf(0, npu);
    for (let child = npu + 1; child < end; child = this.endOf(0, child)) {
      const other = beside[0][child]!;
      if (other < 0 || graphs[1]!.parent[other] !== bench) continue;
      if (this.isShown(0, child) && this.isShown(1, other)) pairs.push([child, other]);
    }
    return longestIncreasing(pairs);
  }
}
