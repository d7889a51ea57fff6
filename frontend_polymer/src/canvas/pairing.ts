import { Grade, Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { otherSide } from '../layout/sides';
import type { Emit } from './events';
import type { Placer } from './geometry';
import type { Palette } from './palette';
import type { Panes } from './panes';
import { RubberLine } from './rubber';

/** What choosing nodes to match by hand acts on. */
export interface PairingView {
  readonly panes: Panes;
  readonly emit: Emit;
  readonly hierarchy: () => Hierarchy | null;
  readonly placer: (side: Side) => Placer;
  readonly palette: () => Palette;
  readonly redraw: () => void;
}

/** Nodes to match by hand: pulled from one side to the other, or picked with a click. */
export class Pairing {
  private picking: Side | null = null;
  private from: NodeRef | null = null;
  private readonly line: RubberLine;

  constructor(private readonly of: PairingView) {
    this.line = new RubberLine(of.panes.root);
  }

  /** The side whose next clicked node is picked, null for none. */
  get pickMode(): Side | null {
    return this.picking;
  }

  set pickMode(side: Side | null) {
    this.picking = side;
    this.of.redraw();
  }

  /** The side on which a node is wanted now. */
  get wanted(): Side | null {
    return this.from ? otherSide(this.from.side) : this.picking;
  }

  /** Forgets everything, as when another model is shown. */
  reset(): void {
    this.picking = this.from = null;
    this.line.hide();
  }

  /** Ends what has begun; whether there was anything. */
  cancel(): boolean {
    const wasPicking = this.picking !== null && !this.from;
    if (!wasPicking && !this.from) return false;
    if (wasPicking) this.picking = null;
    this.from = null;
    this.line.hide();
    if (wasPicking) this.of.emit('pick', { node: null });
    this.of.redraw();
    return true;
  }

  isFree({ side, index }: NodeRef): boolean {
    const tree = this.of.hierarchy()?.trees[side];
    if (!tree || tree.isSeries(index)) return false;
    return tree.graph.gradeOf(index) === Grade.UNMATCHED;
  }

  /** Whether a match can be made with it, if need be in place of another. */
  canPair({ side, index }: NodeRef): boolean {
    const tree = this.of.hierarchy()?.trees[side];
    return tree?.isSeries(index) === false && index > 0;
  }

  /** Picks a node if one of its side is wanted. */
  pick(pointed: NodeRef): void {
    const hierarchy = this.of.hierarchy();
    const side = this.picking;
    if (!hierarchy || side === null) return;
    const isBeside = hierarchy.isUnified && pointed.side !== side;
    const index = isBeside ? hierarchy.rows.node[side][hierarchy.rowOf(pointed)]! : pointed.index;
    const node = isBeside ? { side, index } : pointed;
    if (node.side !== side || index < 0 || !this.canPair(node)) return;
    this.pickMode = null;
    this.of.emit('pick', { node });
  }

  /** Begins to pull at a node; whether it can be matched. */
  grab(node: NodeRef | null): boolean {
    if (!node || !this.isFree(node) || !this.of.hierarchy()!.graphs[otherSide(node.side)]) {
      return false;
    }
    this.from = node;
    this.of.redraw();
    return true;
  }

  /** Draws the line to a point of the view, over a node or over none. */
  pull(x: number, y: number, over: NodeRef | null): void {
    const { from, of } = this;
    const start = from && this.edgeOf(from);
    if (!start) return;
    const { selection, background } = of.palette();
    const colours = { line: selection, halo: background };
    this.line.show(start, { x, y }, colours, this.isTarget(over));
  }

  drop(over: NodeRef | null): void {
    const { from } = this;
    const isDone = from !== null && this.isTarget(over);
    this.from = null;
    this.line.hide();
    this.of.redraw();
    if (isDone) {
      const [npu, bench] = from.side === Side.NPU ? [from, over!] : [over!, from];
      this.of.emit('match-drop', { npu, bench });
    }
  }

  private isTarget(node: NodeRef | null): boolean {
    return node !== null && node.side === this.wanted && this.canPair(node);
  }

  /** The middle of a row's edge that faces the other side, in the view. */
  private edgeOf(node: NodeRef): { x: number; y: number } | null {
    const row = this.of.hierarchy()!.rowOf(node);
    if (row < 0) return null;
    const pane = this.of.panes.at(node.side);
    const box = this.of.placer(node.side).row(row);
    const right = Math.min(box.x + box.width, pane.surface.width);
    const x = pane.x + (node.side === Side.NPU ? right : Math.max(0, box.x));
    return { x, y: box.y + box.height / 2 };
  }
}
