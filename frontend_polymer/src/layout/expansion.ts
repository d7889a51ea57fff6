import { Grade, Side } from '../generated/graph_pb';
import type { Trees } from './align';
import { otherSide, SIDES, type PerSide } from './sides';
import type { Tree } from './tree';

/**
 * Which nodes are unfolded. A node keeps its state while an ancestor is folded, so opening the
 * ancestor again shows what was there before.
 */
export class Expansion {
  /** 1 for each node and series that has children and is unfolded. */
  readonly open: PerSide<Uint8Array>;
  /** Whether a change on one side also changes the counterpart. */
  sync = true;

  constructor(
    private readonly trees: Trees,
    private readonly beside: PerSide<Int32Array>,
  ) {
    this.open = [new Uint8Array(trees[0].size), new Uint8Array(trees[1]?.size ?? 0)];
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

  /**
   * Shows nodes down to this depth; the root is at depth 0. A series unfolds as soon as its layers
   * would.
   */
  toLevel(level: number): void {
    this.fill(({ graph }, _, node) => graph.depth[node]! < level);
  }

  /** Unfolds a subtree completely. */
  expandBelow(side: Side, node: number): void {
    const tree = this.trees[side]!;
    const [start, end] = [tree.start(node), tree.end(node)];
    this.set(side, node, true);
    for (let below = start; below < end; below++) this.set(side, below, true);
    for (let series = tree.graph.count; series < tree.size; series++) {
      const isBelow = tree.start(series) >= start && tree.end(series) <= end;
      if (isBelow) this.set(side, series, true);
    }
  }

  /** Unfolds exactly the paths that lead to nodes of this grade or worse, on both sides. */
  toErrors(least: Grade): void {
    const errors = this.trees.map((tree) => tree && errorsBefore(tree.graph.grade, least));
    this.fill((tree, id, _, side) => {
      const before = errors[side]!;
      return before[tree.end(id)]! > before[tree.start(id)]!;
    });
    const [npu, bench] = this.open;
    const beside = this.beside[Side.BENCH];
    for (const node of this.trees[Side.BENCH]?.folders() ?? NONE) {
      const other = beside[node]!;
      if (other >= 0) bench[node] = npu[other]!;
    }
    this.setOne(Side.NPU, 0, true);
    this.setOne(Side.BENCH, 0, true);
  }

  /** Unfolds on both sides what is unfolded on one. */
  join(): void {
    const beside = this.beside[Side.NPU];
    for (let node = 0; node < beside.length; node++) {
      const other = beside[node]!;
      if (other < 0 || this.open[0][node] === this.open[1][other]) continue;
      this.setOne(Side.NPU, node, true);
      this.setOne(Side.BENCH, other, true);
    }
  }

  /** Asks with the number of each node or series and with the node that speaks for it. */
  private fill(isOpen: (tree: Tree, id: number, node: number, side: Side) => boolean): void {
    for (const side of SIDES) {
      const tree = this.trees[side];
      if (tree === null) continue;
      const open = this.open[side];
      for (const id of tree.folders()) open[id] = isOpen(tree, id, tree.node(id), side) ? 1 : 0;
    }
  }

  private openAncestors(side: Side, node: number): void {
    const tree = this.trees[side]!;
    for (let above = tree.parent(node); above >= 0; above = tree.parent(above)) {
      this.set(side, above, true);
    }
  }

  private setOne(side: Side, node: number, open: boolean): void {
    if (this.trees[side]?.hasChildren(node)) this.open[side][node] = open ? 1 : 0;
  }
}

const NONE = new Int32Array();

/** Of each place, how many nodes before it are of this grade or worse, up to severe. */
function errorsBefore(grades: Uint8Array, least: number): Int32Array {
  const before = new Int32Array(grades.length + 1);
  let found = 0;
  for (let index = 0; index < grades.length; index++) {
    const grade = grades[index]!;
    if (grade >= least && grade <= WORST) found++;
    before[index + 1] = found;
  }
  return before;
}

const WORST: number = Grade.SEVERE;
