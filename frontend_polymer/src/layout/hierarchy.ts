import { Side } from '../generated/graph_pb';
import { align } from './align';
import { counterparts } from './counterpart';
import { Expansion } from './expansion';
import { rowAt, shownNode, type Rows } from './rows';
import { otherSide, SIDES, type Graphs, type PerSide } from './sides';

export interface NodeRef {
  readonly side: Side;
  readonly index: number;
}

/** Two graphs, what of them is unfolded, and the rows that follow from it. */
export class Hierarchy {
  readonly beside: PerSide<Int32Array>;
  readonly expansion: Expansion;
  rows: Rows;
  private shownMicroStep = -1;

  constructor(readonly graphs: Graphs) {
    this.beside = counterparts(graphs);
    this.expansion = new Expansion(graphs, this.beside);
    this.rows = this.align();
  }

  /** Only the root's subtrees of this micro-step; -1 for all. */
  get microStep(): number {
    return this.shownMicroStep;
  }

  set microStep(step: number) {
    this.shownMicroStep = step;
    this.relayout();
  }

  /** Brings the rows up to date with the expansion. */
  relayout(): void {
    this.rows = this.align();
  }

  counterpart({ side, index }: NodeRef): NodeRef | null {
    const other = this.beside[side][index]!;
    return other < 0 ? null : { side: otherSide(side), index: other };
  }

  /** The node itself, or the folded module that hides it; null when it is filtered out. */
  shown({ side, index }: NodeRef): NodeRef | null {
    const shown = shownNode(this.graphs[side]!.parent, this.rows.rowOf[side], index);
    return shown < 0 ? null : { side, index: shown };
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

  private align(): Rows {
    return align({
      graphs: this.graphs,
      beside: this.beside,
      open: this.expansion.open,
      microStep: this.shownMicroStep,
    });
  }
}
