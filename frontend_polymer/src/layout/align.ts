import { Side } from '../generated/graph_pb';
import { longestIncreasing } from './increasing';
import { UNITS_PER_ROW, type Rows } from './rows';
import type { PerSide } from './sides';
import type { Tree } from './tree';

/** One tree per side; no reference in a build of one run. */
export type Trees = PerSide<Tree | null> & { readonly 0: Tree };

export interface AlignInput {
  readonly trees: Trees;
  /** What stands at the same place on the other side, -1 for nothing. */
  readonly beside: PerSide<Int32Array>;
  /** 1 for all that is unfolded. */
  readonly open: PerSide<Uint8Array>;
  /** Only the root's subtrees of this micro-step; -1 for all. */
  readonly microStep: number;
  /** The only side that gets rows; null for both. */
  readonly only: Side | null;
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
  const { trees, open, only } = input;
  const [npu, bench] = trees;
  const placement = new Placement(
    input,
    visible(npu, open[0]) + (bench ? visible(bench, open[1]) : 0),
  );
  const hasBench = bench !== null && only !== Side.NPU;
  placement.place(hasBench && only === Side.BENCH ? -1 : 0, hasBench ? 0 : -1, 0, -1);
  return placement.rows();
}

/** An upper bound on the rows of one side. */
function visible({ graph, end, series }: Tree, open: Uint8Array): number {
  let count = series.length;
  for (let index = 0; index < graph.count; count++) {
    index = open[index] === 1 ? index + 1 : end[index]!;
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
    this.npuRow = new Int32Array(input.trees[0].size).fill(-1);
    this.benchRow = new Int32Array(input.trees[1]?.size ?? 0).fill(-1);
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
    else if (npuOpen) this.placeNpu(npu, this.startOf(0, npu), this.endOf(0, npu), row);
    else if (benchOpen) this.placeBench(bench, this.startOf(1, bench), this.endOf(1, bench), row);
    if (npuOpen || benchOpen) this.unit++;
    this.end[row] = this.count;
    this.bottom[row] = this.unit;
  }

  private isOpen(side: 0 | 1, node: number): boolean {
    return this.input.open[side][node] === 1 && this.input.trees[side]!.hasChildren(node);
  }

  private startOf(side: 0 | 1, node: number): number {
    return this.input.trees[side]!.start(node);
  }

  private endOf(side: 0 | 1, node: number): number {
    return this.input.trees[side]!.end[node]!;
  }

  private isShown(side: 0 | 1, node: number): boolean {
    const { microStep, trees } = this.input;
    const tree = trees[side]!;
    return microStep < 0 || tree.parent[node] !== 0 || tree.microStep(node) === microStep;
  }

  /** Places the children of `module` from one node on, up to another. */
  private placeNpu(module: number, from: number, to: number, parent: number): void {
    for (let node = from; node < to;) {
      const child = this.input.trees[0].childAt(module, node);
      if (this.isShown(0, child)) this.place(child, -1, this.depth[parent]! + 1, parent);
      node = this.endOf(0, child);
    }
  }

  private placeBench(module: number, from: number, to: number, parent: number): void {
    for (let node = from; node < to;) {
      const child = this.input.trees[1]!.childAt(module, node);
      if (this.isShown(1, child)) this.place(-1, child, this.depth[parent]! + 1, parent);
      node = this.endOf(1, child);
    }
  }

  private placeBoth(npu: number, bench: number, parent: number): void {
    let nextNpu = this.startOf(0, npu);
    let nextBench = this.startOf(1, bench);
    for (const [child, other] of this.anchors(npu, bench)) {
      this.placeNpu(npu, nextNpu, this.firstOf(0, child), parent);
      this.placeBench(bench, nextBench, this.firstOf(1, other), parent);
      this.place(child, other, this.depth[parent]! + 1, parent);
      nextNpu = this.endOf(0, child);
      nextBench = this.endOf(1, other);
    }
    this.placeNpu(npu, nextNpu, this.endOf(0, npu), parent);
    this.placeBench(bench, nextBench, this.endOf(1, bench), parent);
  }

  /** The first node that a child takes up. */
  private firstOf(side: 0 | 1, child: number): number {
    const tree = this.input.trees[side]!;
    return tree.isSeries(child) ? tree.start(child) : child;
  }

  /** Children that share a row, in order. */
  private anchors(npu: number, bench: number): [child: number, other: number][] {
    const { trees, beside } = this.input;
    const pairs: [number, number][] = [];
    const end = this.endOf(0, npu);
    for (let node = this.startOf(0, npu); node < end;) {
      const child = trees[0].childAt(npu, node);
      node = this.endOf(0, child);
      const other = beside[0][child]!;
      if (other < 0 || trees[1]!.parent[other] !== bench) continue;
      if (this.isShown(0, child) && this.isShown(1, other)) pairs.push([child, other]);
    }
    // Of a series, the number says nothing about its place.
    const place = (other: number) => this.firstOf(1, other);
    return longestIncreasing(pairs.map(([child, other]) => [child, place(other)] as const)).map(
      ([child]) => [child, beside[0][child]!],
    );
  }
}
