import { Side } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import { parentOf, stepFrom } from '../layout/walk';
import { topOf } from './anchor';
import type { Camera } from './camera';
import type { Origin } from './events';
import { watchPane, type GestureTarget } from './gestures';
import { hitAt, type Hit } from './hit';
import { pressKey, type KeyTarget } from './keys';
import { placeAt, Sequence } from './minimap';
import { Pairing, type PairingView } from './pairing';
import { seenAt } from './scene';
import { ROW_HEIGHT } from './viewport';

/** What gestures and keys act on. */
export interface Controlled extends PairingView {
  readonly camera: Camera;
  readonly selected: () => NodeRef | null;
  readonly choose: (node: NodeRef, origin: Origin) => void;
  readonly toggle: (side: Side, index: number) => void;
}

/** Gestures on the panes and keys on the element around them. */
export class Controls implements GestureTarget, KeyTarget {
  /** The side that keys and buttons act on: the one used last. */
  active: Side = Side.NPU;
  hovered: NodeRef | null = null;
  /** Where the pointer rests, in a pane and in the window. */
  private pointer: {
    readonly side: Side;
    readonly x: number;
    readonly y: number;
    readonly clientX: number;
    readonly clientY: number;
  } | null = null;
  readonly pairing: Pairing;

  constructor(private readonly of: Controlled) {
    this.pairing = new Pairing(of);
    for (const pane of of.panes.list) watchPane(pane, this);
    of.panes.root.addEventListener('keydown', (event) => {
      if (!of.hierarchy()) return;
      const isMeant = event.key === 'Escape' ? this.pairing.cancel() : pressKey(event, this);
      if (isMeant) event.preventDefault();
    });
  }

  reset(): void {
    this.active = this.of.panes.shown[0]!.side;
    this.hovered = this.pointer = null;
    this.pairing.reset();
  }

  // --- gestures

  focus(): void {
    this.of.panes.root.focus({ preventScroll: true });
  }

  clickAt(side: Side, x: number, y: number): void {
    this.active = side;
    const hit = this.hitAt(side, x, y);
    if (hit?.onChevron) this.of.toggle(side, hit.node.index);
    else if (hit && this.pairing.pickMode !== null) this.pairing.pick(hit.node);
    else if (hit) this.of.choose(hit.node, 'pointer');
  }

  doubleClickAt(side: Side, x: number, y: number): void {
    const hit = this.hitAt(side, x, y);
    if (hit && !hit.onChevron) this.of.toggle(side, hit.node.index);
  }

  menuAt(side: Side, x: number, y: number, event: MouseEvent): void {
    const hit = this.hitAt(side, x, y);
    if (!hit) return;
    event.preventDefault();
    const seen = seenAt(this.of.hierarchy()!, hit.node);
    this.of.emit('menu', { ...seen, x: event.clientX, y: event.clientY });
  }

  hoverAt(side: Side, x: number, y: number, event: PointerEvent): void {
    this.pointer = { side, x, y, clientX: event.clientX, clientY: event.clientY };
    const node = this.hitAt(side, x, y)?.node ?? null;
    const isPicking = this.pairing.pickMode === side && node && this.pairing.canPair(node);
    const cursor = isPicking ? 'crosshair' : node ? 'pointer' : 'default';
    this.of.panes.at(side).surface.canvas.style.cursor = cursor;
    this.hover(node, event.clientX, event.clientY);
  }

  /** What lies under a pointer that rests, after the rows have moved beneath it. */
  followRows(): void {
    const { pointer } = this;
    if (!pointer || !this.of.hierarchy()) return;
    const node = this.hitAt(pointer.side, pointer.x, pointer.y)?.node ?? null;
    this.hover(node, pointer.clientX, pointer.clientY);
  }

  leave(): void {
    this.pointer = null;
    this.hover(null, 0, 0);
  }

  pan(side: Side, dx: number, dy: number): void {
    this.of.camera.pan(side, dx, dy);
  }

  zoom(side: Side, factor: number, x: number, y: number): void {
    this.of.camera.zoom(side, factor, x, y);
  }

  grab(side: Side, x: number, y: number): boolean {
    return this.pairing.grab(this.hitAt(side, x, y)?.node ?? null);
  }

  pull(event: PointerEvent): void {
    const { left, top } = this.of.panes.root.getBoundingClientRect();
    const over = this.under(event);
    this.hover(over, event.clientX, event.clientY);
    this.pairing.pull(event.clientX - left, event.clientY - top, over);
  }

  drop(event: PointerEvent): void {
    this.pairing.drop(event.type === 'pointerup' ? this.under(event) : null);
  }

  /** What is under the pointer on the side where a node is wanted. */
  private under({ clientX, clientY }: PointerEvent): NodeRef | null {
    const side = this.pairing.wanted;
    if (side === null) return null;
    const { canvas, width, height } = this.of.panes.at(side).surface;
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [clientX - left, clientY - top];
    const isInside = x >= 0 && y >= 0 && x < width && y < height;
    return isInside ? (this.hitAt(side, x, y)?.node ?? null) : null;
  }

  travel(side: Side, y: number): void {
    const graph = this.of.hierarchy()?.graphs[side];
    if (!graph) return;
    const sequence = new Sequence(graph, this.of.hierarchy()!.microStep);
    if (sequence.length === 0) return;
    const { height } = this.of.panes.list[side].minimap;
    const node = { side, index: sequence.node(placeAt(sequence, y, height)) };
    const unit = topOf(this.of.hierarchy()!, node);
    if (unit !== null) this.of.camera.travel(side, unit);
  }

  private hitAt(side: Side, x: number, y: number): Hit | null {
    const { panes } = this.of;
    const hierarchy = this.of.hierarchy();
    const { height } = panes.at(side).surface;
    return hierarchy && hitAt(hierarchy, side, this.of.placer(side), x, y, height);
  }

  private hover(node: NodeRef | null, x: number, y: number): void {
    if (node?.index === this.hovered?.index && node?.side === this.hovered?.side) return;
    this.hovered = node;
    const hierarchy = this.of.hierarchy();
    const seen = node && hierarchy ? seenAt(hierarchy, node) : { node: null, layers: null };
    this.of.emit('hover', { ...seen, x, y });
    this.of.redraw();
  }

  setPickMode(side: Side | null): void {
    this.pairing.pickMode = side;
    if (side === null) return;
    this.active = side;
    this.focus();
  }

  // --- keys

  step(rows: number): void {
    const [hierarchy, selected] = [this.of.hierarchy(), this.of.selected()];
    this.of.choose(stepFrom(hierarchy!, this.active, selected, rows), 'keyboard');
  }

  page(direction: 1 | -1): void {
    const { height } = this.of.panes.at(this.active).surface;
    const rows = Math.floor(height / this.of.camera.view(this.active).rowHeight);
    this.step(direction * Math.max(1, rows - 1));
  }

  first(): void {
    this.step(-Infinity);
  }

  last(): void {
    this.step(Infinity);
  }

  inward(): void {
    const [hierarchy, selected] = [this.of.hierarchy(), this.of.selected()];
    if (!selected) this.step(1);
    else if (!hierarchy!.trees[selected.side]!.hasChildren(selected.index)) return;
    else if (this.isExpanded(selected)) this.step(1);
    else this.of.toggle(selected.side, selected.index);
  }

  outward(): void {
    const [hierarchy, selected] = [this.of.hierarchy(), this.of.selected()];
    if (!selected) return;
    const parent = parentOf(hierarchy!, selected);
    if (this.isExpanded(selected)) this.of.toggle(selected.side, selected.index);
    else if (parent) this.of.choose(parent, 'keyboard');
  }

  toggleSelected(): void {
    const selected = this.of.selected();
    if (!selected) return;
    const { pairing } = this;
    if (pairing.pickMode === selected.side && pairing.canPair(selected)) pairing.pick(selected);
    else this.of.toggle(selected.side, selected.index);
  }

  cross(): void {
    const [hierarchy, selected] = [this.of.hierarchy(), this.of.selected()];
    const other = selected && hierarchy!.counterpart(selected);
    if (other) this.of.choose(other, 'keyboard');
  }

  zoomBy(factor: number): void {
    this.of.camera.zoom(this.active, factor);
  }

  resetZoom(): void {
    this.zoomBy(ROW_HEIGHT / this.of.camera.view(this.active).rowHeight);
  }

  fit(): void {
    this.of.camera.fit(this.active);
  }

  panBy(dx: number, dy: number): void {
    this.pan(this.active, dx, dy);
  }

  private isExpanded({ side, index }: NodeRef): boolean {
    return this.of.hierarchy()!.expansion.isOpen(side, index);
  }
}
