import type { Graph } from '../data/graph';
import { Grade, Side } from '../generated/graph_pb';
import { otherSide, SIDES, type Graphs, type PerSide } from './sides';

/**
 * Which nodes are unfolded. A node keeps its state while an ancestor is folded, so opening the
 * ancestor again shows what was there before.
 */
export class Expansion {
  /** 1 for each unfolded node that has children. */
  readonly open: PerSide<Uint8Array>;
  /** Whether a change on one side also changes the counterpart. */
  sync = true;

  constructor(
    private readonly graphs: Graphs,
    private readonly beside: PerSide<Int32Array>,
  ) {
    this.open = [new Uint8Array(graphs[0].count), new Uint8Array(graphs[1]?.count ?? 0)];
    this.collapseAll();
  }

  isOpen(side: Side, node: number): boolean {
    return this.open[side][node] === 1;
  }

  set(side: Side, node: number, open: boolean): void {
    this.setOne(side, node, open);
    const other = this.beside[side][node]!;
    if (this.sync && other >= 0) this.setOne(otherSide(side), other, open);
  }

  /** Unfolds what is above a node, here and around its counterpart, so that both can be seen. */
  reveal(side: Side, node: number): void {
    this.openAncestors(side, node);
    const other = this.beside[side][node]!;
    if (other >= 0) this.openAncestors(otherSide(side), other);
  }

  expandAll(): void {
    this.fill(() => true);
  }

  /** Folds everything below the root. */
  collapseAll(): void {
    this.toLevel(1);
  }

  /** Shows nodes down to this depth; the root is at depth 0. */
  toLevel(level: number): void {
    this.fill((graph, node) => graph.depth[node]! < level);
  }

  /** Unfolds a subtree completely. */
  expandBelow(side: Side, node: number): void {
    const { end } = this.graphs[side]!;
    for (let below = node; below < end[node]!; below++) this.set(side, below, true);
  }

  /** Unfolds exactly the paths that lead to nodes of this grade or worse, on both sides. */
  toErrors(least: Grade): void {
    this.fill((graph, node) => graph.rollup.worstGrade(node + 1, graph.end[node]!) >= least);
    const [npu, bench] = this.open;
    for (let node = 0; node < bench.length; node++) {
      const other = this.beside[Side.BENCH][node]!;
      if (other >= 0) this.setOne(Side.BENCH, node, npu[other] === 1);
    }
    this.setOne(Side.NPU, 0, true);
    this.setOne(Side.BENCH, 0, true);
  }

  private fill(isOpen: (graph: Graph, node: number) => boolean): void {
    for (const side of SIDES) {
      const graph = this.graphs[side];
      if (graph === null) continue;
      for (let node = 0; node < graph.count; node++) this.setOne(side, node, isOpen(graph, node));
    }
  }

  private openAncestors(side: Side, node: number): void {
    const { parent } = this.graphs[side]!;
    for (let above = parent[node]!; above >= 0; above = parent[above]!) this.set(side, above, true);
  }

  private setOne(side: Side, node: number, open: boolean): void {
    const graph = this.graphs[side];
    if (graph?.hasChildren(node)) this.open[side][node] = open ? 1 : 0;
  }
}

/**
 * The first level at which a node of this grade or worse can be seen; 1 when there is none, so that
 * a healthy model opens on its top modules.
 */
export function firstLevel(graph: Graph, least: Grade): number {
  let level = 0;
  for (let node = 0; node < graph.count; node++) {
    const depth = graph.depth[node]!;
    const grade = graph.gradeOf(node);
    const isBad = grade >= least && grade !== Grade.UNMATCHED;
    if (isBad && depth > 0 && (level === 0 || depth < level)) level = depth;
  }
  return Math.max(1, level);
}
