import { Side } from '../generated/graph_pb';
import { longestIncreasing } from './increasing';
import { UNITS_PER_ROW, type Rows } from './rows';
import { MOST_WRAPPERS, type PerSide } from './sides';
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
 *
 * A module that one side has in between, such as what distributed training wraps a model in, does not
 * part what it holds from the counterparts around: they stand inside it, beside a gap in its own row.
 */
export function align(input: AlignInput): Rows {
  const { trees, open, only } = input;
  const [npu, bench] = trees;
  // Most rows hold a node of either side.
  const sizes = [visible(npu, open[0]), bench ? visible(bench, open[1]) : 0];
  const placement = new Placement(input, Math.max(...sizes));
  const hasBench = bench !== null && only !== Side.NPU;
  placement.place(hasBench && only === Side.BENCH ? -1 : 0, hasBench ? 0 : -1, 0, -1);
  return placement.rows();
}

/** Nodes of one side that follow each other, from one on up to another, in a module. */
interface Run {
  readonly module: number;
  readonly from: number;
  readonly to: number;
}

/** A module that the other side lacks, and where the counterparts of what it holds stand there. */
interface Wrapper {
  readonly node: number;
  readonly from: number;
  readonly to: number;
}

/** An upper bound on the rows of one side. */
function visible({ graph, series }: Tree, open: Uint8Array): number {
  let count = series.length;
  for (let index = 0; index < graph.count; count++) {
    index = open[index] === 1 ? index + 1 : graph.end[index]!;
  }
  return count;
}

/** The columns of rows, with room for more. */
function columnsOf(capacity: number, deepest: number) {
  return {
    npuNode: new Int32Array(capacity),
    benchNode: new Int32Array(capacity),
    depth: deepest < 2 ** 8 ? new Uint8Array(capacity) : new Uint16Array(capacity),
    parent: new Int32Array(capacity),
    end: new Int32Array(capacity),
    top: new Int32Array(capacity),
    through: new Uint8Array(capacity),
  };
}

class Placement {
  private count = 0;
  private unit = 0;
  private capacity: number;
  private columns: ReturnType<typeof columnsOf>;
  private readonly deepest: number;
  private readonly npuRow: Int32Array;
  private readonly benchRow: Int32Array;

  constructor(
    private readonly input: AlignInput,
    capacity: number,
  ) {
    this.capacity = capacity;
    // What one side has in between moves what the other has there along.
    const [npu, bench] = input.trees;
    this.deepest = npu.deepest + (bench?.deepest ?? 0);
    this.columns = columnsOf(capacity, this.deepest);
    this.npuRow = new Int32Array(input.trees[0].size).fill(-1);
    this.benchRow = new Int32Array(input.trees[1]?.size ?? 0).fill(-1);
  }

  rows(): Rows {
    const { count, columns } = this;
    return {
      count,
      node: [columns.npuNode.subarray(0, count), columns.benchNode.subarray(0, count)],
      rowOf: [this.npuRow, this.benchRow],
      depth: columns.depth.subarray(0, count),
      parent: columns.parent.subarray(0, count),
      end: columns.end.subarray(0, count),
      top: columns.top.subarray(0, count),
      through: columns.through.subarray(0, count),
      height: this.unit,
    };
  }

  /** Places a node of either side, or of both, and everything unfolded below. */
  place(npu: number, bench: number, depth: number, parent: number): void {
    const row = this.head(npu, bench, depth, parent);
    const npuOpen = npu >= 0 && this.isOpen(0, npu);
    const benchOpen = bench >= 0 && this.isOpen(1, bench);
    if (npuOpen && benchOpen) this.placeBoth(this.runOf(0, npu), this.runOf(1, bench), row);
    else if (npuOpen) this.placeAlone(0, this.runOf(0, npu), row);
    else if (benchOpen) this.placeAlone(1, this.runOf(1, bench), row);
    this.close(row, npuOpen || benchOpen);
  }

  private head(npu: number, bench: number, depth: number, parent: number): number {
    const row = this.count++;
    if (row === this.capacity) this.grow();
    const { columns } = this;
    columns.npuNode[row] = npu;
    columns.benchNode[row] = bench;
    columns.depth[row] = depth;
    columns.parent[row] = parent;
    columns.top[row] = this.unit;
    this.unit += UNITS_PER_ROW;
    if (npu >= 0) this.npuRow[npu] = row;
    if (bench >= 0) this.benchRow[bench] = row;
    return row;
  }

  private grow(): void {
    const before = this.columns;
    this.capacity = Math.ceil(this.capacity * 1.0625) + 1;
    this.columns = columnsOf(this.capacity, this.deepest);
    for (const name of Object.keys(before) as (keyof typeof before)[]) {
      this.columns[name].set(before[name]);
    }
  }

  private close(row: number, isOpen: boolean): void {
    if (isOpen) this.unit++;
    this.columns.end[row] = this.count;
  }

  /** Everything below a module. */
  private runOf(side: 0 | 1, module: number): Run {
    return { module, from: this.startOf(side, module), to: this.endOf(side, module) };
  }

  private isOpen(side: 0 | 1, node: number): boolean {
    return this.input.open[side][node] === 1 && this.input.trees[side]!.hasChildren(node);
  }

  private startOf(side: 0 | 1, node: number): number {
    return this.input.trees[side]!.start(node);
  }

  private endOf(side: 0 | 1, node: number): number {
    return this.input.trees[side]!.end(node);
  }

  private isShown(side: 0 | 1, node: number): boolean {
    const { microStep, trees } = this.input;
    const tree = trees[side]!;
    return microStep < 0 || tree.parent(node) !== 0 || tree.microStep(node) === microStep;
  }

  private placeAlone(side: 0 | 1, { module, from, to }: Run, parent: number): void {
    const tree = this.input.trees[side]!;
    for (let node = from; node < to;) {
      const child = tree.childAt(module, node);
      if (this.isShown(side, child)) {
        const [npu, bench] = side === 0 ? [child, -1] : [-1, child];
        this.place(npu, bench, this.columns.depth[parent]! + 1, parent);
      }
      node = this.endOf(side, child);
    }
  }

  private placeBoth(npu: Run, bench: Run, parent: number): void {
    const depth = this.columns.depth[parent]! + 1;
    const children = this.anchors(npu, bench);
    const beside = this.input.beside[0];
    let [nextNpu, nextBench] = [npu.from, bench.from];
    for (const child of children) {
      const other = beside[child]!;
      const [to, toBench] = [this.firstOf(0, child), this.firstOf(1, other)];
      // Between most of them there is nothing.
      if (nextNpu < to || nextBench < toBench) {
        this.placeBetween(
          { module: npu.module, from: nextNpu, to },
          { module: bench.module, from: nextBench, to: toBench },
          parent,
        );
      }
      this.place(child, other, depth, parent);
      nextNpu = this.endOf(0, child);
      nextBench = this.endOf(1, other);
    }
    this.placeBetween({ ...npu, from: nextNpu }, { ...bench, from: nextBench }, parent);
  }

  /** What stands between two shared rows: wrappers of the debug side, then those of the reference. */
  private placeBetween(npu: Run, bench: Run, parent: number): void {
    let [nextNpu, nextBench] = [npu.from, bench.from];
    for (const { node, from, to } of this.wrappers(0, npu, bench)) {
      this.placeApart(
        { ...npu, from: nextNpu, to: node },
        { ...bench, from: nextBench, to: from },
        parent,
      );
      const row = this.wrap(node, -1, parent);
      this.placeBoth(this.runOf(0, node), { ...bench, from, to }, row);
      this.close(row, true);
      nextNpu = this.endOf(0, node);
      nextBench = to;
    }
    this.placeApart({ ...npu, from: nextNpu }, { ...bench, from: nextBench }, parent);
  }

  private placeApart(npu: Run, bench: Run, parent: number): void {
    let [nextNpu, nextBench] = [npu.from, bench.from];
    for (const { node, from, to } of this.wrappers(1, bench, npu)) {
      this.placeAlone(0, { ...npu, from: nextNpu, to: from }, parent);
      this.placeAlone(1, { ...bench, from: nextBench, to: node }, parent);
      const row = this.wrap(-1, node, parent);
      this.placeBoth({ ...npu, from, to }, this.runOf(1, node), row);
      this.close(row, true);
      nextNpu = to;
      nextBench = this.endOf(1, node);
    }
    this.placeAlone(0, { ...npu, from: nextNpu }, parent);
    this.placeAlone(1, { ...bench, from: nextBench }, parent);
  }

  private wrap(npu: number, bench: number, parent: number): number {
    const row = this.head(npu, bench, this.columns.depth[parent]! + 1, parent);
    this.columns.through[row] = 1;
    return row;
  }

  /** Unfolded modules without counterpart whose children have theirs in a run of the other side. */
  private wrappers(side: 0 | 1, run: Run, others: Run): Wrapper[] {
    const found: Wrapper[] = [];
    if (others.from >= others.to) return found;
    const tree = this.input.trees[side]!;
    for (let node = run.from; node < run.to;) {
      const child = tree.childAt(run.module, node);
      node = this.endOf(side, child);
      const span = this.isShown(side, child) ? this.span(side, child, others, 1) : null;
      if (span) found.push({ node: child, ...span });
    }
    let end = others.from;
    const places = found.map(({ from }, at) => [at, from] as const);
    return longestIncreasing(places).flatMap(([at]) => {
      const wrapper = found[at]!;
      if (wrapper.from < end) return [];
      end = wrapper.to;
      return [wrapper];
    });
  }

  /** The part of a run in which the counterparts of a wrapper's children lie. */
  private span(
    side: 0 | 1,
    wrapper: number,
    others: Run,
    level: number,
  ): { from: number; to: number } | null {
    const { trees, beside } = this.input;
    const tree = trees[side]!;
    const otherSide = side === 0 ? 1 : 0;
    if (beside[side][wrapper]! >= 0 || tree.isSeries(wrapper) || !this.isOpen(side, wrapper)) {
      return null;
    }
    let [from, to] = [others.to, others.from];
    const widen = (first: number, end: number) => {
      from = Math.min(from, first);
      to = Math.max(to, end);
    };
    for (let node = this.startOf(side, wrapper); node < this.endOf(side, wrapper);) {
      const child = tree.childAt(wrapper, node);
      node = this.endOf(side, child);
      const other = beside[side][child]!;
      if (other < 0) {
        const inner = level < MOST_WRAPPERS ? this.span(side, child, others, level + 1) : null;
        if (inner) widen(inner.from, inner.to);
      } else if (this.isIn(otherSide, other, others)) {
        widen(this.firstOf(otherSide, other), this.endOf(otherSide, other));
      }
    }
    return from < to ? { from, to } : null;
  }

  private isIn(side: 0 | 1, node: number, { module, from, to }: Run): boolean {
    if (this.input.trees[side]!.parent(node) !== module || !this.isShown(side, node)) return false;
    const first = this.firstOf(side, node);
    return from <= first && first < to;
  }

  /** The first node that a child takes up. */
  private firstOf(side: 0 | 1, child: number): number {
    const tree = this.input.trees[side]!;
    return tree.isSeries(child) ? tree.start(child) : child;
  }

  /** Children of the debug side that share a row with their counterparts, in order. */
  private anchors(npu: Run, bench: Run): number[] {
    const { trees, beside } = this.input;
    const children: number[] = [];
    let isInOrder = true;
    let last = -1;
    for (let node = npu.from; node < npu.to;) {
      const child = trees[0].childAt(npu.module, node);
      node = this.endOf(0, child);
      const other = beside[0][child]!;
      if (other < 0 || !this.isShown(0, child) || !this.isIn(1, other, bench)) continue;
      children.push(child);
      // Of a series, the number says nothing about its place.
      const place = this.firstOf(1, other);
      isInOrder &&= place > last;
      last = place;
    }
    if (isInOrder) return children;
    const places = children.map((child) => [child, this.firstOf(1, beside[0][child]!)] as const);
    return longestIncreasing(places).map(([child]) => child);
  }
}
