import { Side } from '../generated/graph_pb';
import { align, type Trees } from './align';
import { counterparts } from './counterpart';
import { Expansion } from './expansion';
import { rowAt, shownNode, type Rows } from './rows';
import { findSeries, type FoundSeries, type Series } from './series';
import { otherSide, SIDES, type Graphs, type PerSide } from './sides';
import { Tree } from './tree';

export interface NodeRef {
  readonly side: Side;
  /** The number of a node; inside this folder and the canvas also of a series, see tree.ts. */
  readonly index: number;
}

/** Layers are folded without being asked when a model has this many in a row. */
const LONG_SERIES = 8;

/** Two graphs, what of them is unfolded, and the rows that follow from it. */
export class Hierarchy {
  beside: PerSide<Int32Array>;
  trees: Trees;
  expansion: Expansion;
  /** Null once they are out of date, until they are asked for. */
  private laidOut: Laid | null = null;
  /** The same for all nodes and, after them, for the series, folded or not. */
  private readonly besideAll: PerSide<Int32Array>;
  private readonly series: FoundSeries;
  private areFolded = false;
  private shownMicroStep = -1;
  private shownSide: Side | null = null;
  private areUnified = false;

  constructor(readonly graphs: Graphs) {
    const beside = counterparts(graphs);
    this.series = findSeries(graphs, beside);
    this.besideAll = this.withSeries(beside);
    this.areFolded = this.series.of.flat().some(({ count }) => count >= LONG_SERIES);
    this.beside = this.besideOf(this.areFolded);
    this.trees = this.treesOf(this.areFolded);
    this.expansion = new Expansion(this.trees, this.beside);
    this.expansion.collapseAll();
  }

  /** What is unfolded, as it was at the last `relayout`. */
  get rows(): Rows {
    return this.laid.rows;
  }

  private get laid(): Laid {
    return (this.laidOut ??= this.layOut());
  }

  /** How deep nodes of either side lie: what one has in between moves the other's along. */
  get deepest(): number {
    return Math.max(...this.trees.map((tree) => tree?.deepest ?? 0));
  }

  /** Whether layers that follow each other are folded into a row; a change needs `relayout`. */
  get foldsLayers(): boolean {
    return this.areFolded;
  }

  set foldsLayers(areFolded: boolean) {
    if (areFolded === this.areFolded) return;
    this.areFolded = areFolded;
    const { graphs, expansion } = this;
    this.trees = this.treesOf(areFolded);
    this.beside = this.besideOf(areFolded);
    this.expansion = new Expansion(this.trees, this.beside);
    this.expansion.collapseAll();
    this.expansion.sync = expansion.sync;
    for (const side of SIDES) {
      const count = graphs[side]?.count ?? 0;
      this.expansion.open[side].set(expansion.open[side].subarray(0, count));
    }
  }

  /** Whether there is anything to fold. */
  get hasSeries(): boolean {
    return this.series.of.flat().length > 0;
  }

  /** Only the root's subtrees of this micro-step; -1 for all. */
  get microStep(): number {
    return this.shownMicroStep;
  }

  set microStep(step: number) {
    this.shownMicroStep = step;
    this.relayout();
  }

  /** The only side that has rows; null for both. */
  set only(side: Side | null) {
    this.shownSide = side;
    this.relayout();
  }

  /** Whether both sides are shown as one tree: a row stands for what either side has there. */
  get isUnified(): boolean {
    return this.areUnified;
  }

  set isUnified(areUnified: boolean) {
    this.areUnified = areUnified;
    this.relayout();
  }

  /** Brings the rows up to date with the expansion, when they are asked for next. */
  relayout(): void {
    if (this.areUnified) this.expansion.join();
    this.laidOut = null;
  }

  /** The rows that a side draws: in one tree, the reference has only those it has alone. */
  drawnRows(side: Side): Rows {
    const { rows, alone } = this.laid;
    if (!this.areUnified || side === Side.NPU) return rows;
    return { ...rows, node: [rows.node[Side.NPU], alone] };
  }

  /** What stands in a row of a side, or of the one tree. */
  nodeAt(side: Side, row: number): NodeRef | null {
    const isAlone = this.areUnified && this.rows.node[Side.NPU][row]! < 0;
    const own = !this.areUnified ? side : isAlone ? Side.BENCH : Side.NPU;
    const index = this.rows.node[own][row]!;
    return index < 0 ? null : { side: own, index };
  }

  /** The node whose row, in one tree, stands for this one too; itself otherwise. */
  spokesman(node: NodeRef): NodeRef {
    const row = this.areUnified ? this.rowOf(node) : -1;
    return (row >= 0 ? this.nodeAt(node.side, row) : null) ?? node;
  }

  counterpart({ side, index }: NodeRef): NodeRef | null {
    const other = this.beside[side][index]!;
    return other < 0 ? null : { side: otherSide(side), index: other };
  }

  /** The node itself, or the folded module that hides it; null when it is filtered out. */
  shown({ side, index }: NodeRef): NodeRef | null {
    const shown = shownNode(this.trees[side]!, this.rows.rowOf[side], index);
    return shown < 0 ? null : { side, index: shown };
  }

  /** The node that a row of layers stands for, with the same reference for any other. */
  node({ side, index }: NodeRef): NodeRef {
    return { side, index: this.trees[side]!.node(index) };
  }

  /** The row of a node that has one, -1 otherwise. */
  rowOf({ side, index }: NodeRef): number {
    return this.rows.rowOf[side][index] ?? -1;
  }

  /** A node near this height, to hold on to while the rows change. */
  nodeNear(unit: number): NodeRef {
    const row = rowAt(this.rows, unit);
    for (const side of SIDES) {
      const index = this.rows.node[side][row] ?? -1;
      if (index >= 0) return { side, index };
    }
    return { side: Side.NPU, index: 0 };
  }

  private withSeries(beside: PerSide<Int32Array>): PerSide<Int32Array> {
    const { of, paired } = this.series;
    const extended = (side: Side) => {
      const count = beside[side].length;
      const result = new Int32Array(count + of[side].length).fill(-1);
      result.set(beside[side]);
      const other = this.graphs[otherSide(side)]?.count ?? 0;
      for (let at = 0; at < paired; at++) result[count + at] = other + at;
      return result;
    };
    return [extended(Side.NPU), extended(Side.BENCH)];
  }

  private besideOf(areFolded: boolean): PerSide<Int32Array> {
    if (areFolded) return this.besideAll;
    const [npu, bench] = this.graphs;
    const [ofNpu, ofBench] = this.besideAll;
    return [ofNpu.subarray(0, npu.count), ofBench.subarray(0, bench?.count ?? 0)];
  }

  private treesOf(areFolded: boolean): Trees {
    const [npu, bench] = this.graphs;
    const [ofNpu, ofBench]: PerSide<Series[]> = areFolded ? this.series.of : [[], []];
    return [new Tree(npu, ofNpu), bench && new Tree(bench, ofBench)];
  }

  private layOut(): Laid {
    const rows = align({
      trees: this.trees,
      beside: this.beside,
      open: this.expansion.open,
      microStep: this.shownMicroStep,
      only: this.shownSide,
    });
    const [npu, bench] = rows.node;
    const alone = this.areUnified ? bench.map((node, row) => (npu[row]! < 0 ? node : -1)) : bench;
    return { rows, alone };
  }
}

/** Rows and, of those, the nodes of the reference that have one alone, while both are one tree. */
interface Laid {
  readonly rows: Rows;
  readonly alone: Int32Array;
}
