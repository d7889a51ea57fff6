import type { Graph } from '../data/graph';
import { Side } from '../generated/graph_pb';
import type { Expansion } from '../layout/expansion';
import { Hierarchy, type NodeRef } from '../layout/hierarchy';
import { SIDES } from '../layout/sides';
import { known, restoreOpen, type HierarchyState } from '../layout/state';
import { changeInPlace, spotOf } from './anchor';
import { Camera } from './camera';
import { Controls, type Controlled } from './controls';
import { Emitter, type Origin, type SelectOptions } from './events';
import { contentWidth, type Placer } from './geometry';
import type { Columns } from './items';
import { scrollTo, stateOf } from './look';
import { Painter, type Colours, type Marks } from './painter';
import type { Palette } from './palette';
import { Panes } from './panes';
import { pictureOf, toPng, toSvg, type Picture, type PictureWords } from './picture';
import { sceneOf, seenAt, type SceneRow } from './scene';
import type { UnifiedFacts } from './unified-facts';
import type { Extent } from './viewport';

/**
 * Both hierarchies side by side, in a host element that has a size of its own.
 *
 * ```ts
 * const view = new HierarchyView(host);
 * const graphs = [await fetchGraph(npuKey), await fetchGraph(benchKey)] as const;
 * view.setGraphs(...graphs, (expansion) => expansion.toErrors(Grade.SERIOUS));
 * view.on('select', ({ node }) => showDetails(node));
 * ```
 *
 * The host gets a focusable element inside; keys work while that has the focus. Row positions of
 * `scene()` are relative to the host.
 */
export class HierarchyView extends Emitter {
  private readonly panes: Panes;
  private readonly painter = new Painter();
  private readonly camera: Camera;
  private hierarchy: Hierarchy | null = null;
  private chosen: NodeRef | null = null;
  /** What keys and gestures do; buttons as well. */
  readonly controls: Controls;
  private frame = 0;
  /** What was asked for; null leaves it to the model. */
  private wantsFolding: boolean | null = null;
  private only: Side | null = null;
  private isUnified = false;

  constructor(host: HTMLElement) {
    super();
    this.camera = new Camera(
      (side) => this.extent(side),
      (side) => this.moved(side),
    );
    this.panes = new Panes(
      host,
      () => this.camera.update(this.controls.active),
      () => this.draw(),
    );
    this.controls = new Controls(this.controlled());
    this.panes.paint(this.painter.palette);
  }

  /** Takes the elements out of the host. The view cannot be used again. */
  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.camera.stop();
    this.panes.dispose();
  }

  // --- what is shown

  /**
   * Shows two graphs, or one when there is no reference, with what `unfold` unfolds. Selection and
   * hits are dropped.
   */
  setGraphs(
    npu: Graph,
    bench: Graph | null,
    unfold: (expansion: Expansion) => void = () => undefined,
  ): void {
    this.hierarchy = new Hierarchy([npu, bench]);
    if (this.wantsFolding !== null) this.hierarchy.foldsLayers = this.wantsFolding;
    this.hierarchy.expansion.sync = this.camera.isSynced;
    unfold(this.hierarchy.expansion);
    this.hierarchy.only = bench && this.only;
    this.hierarchy.isUnified = bench !== null && this.isUnified;
    this.painter.setHierarchy(this.hierarchy);
    this.chosen = null;
    this.panes.setSides(bench !== null, this.only, this.isUnified);
    this.controls.reset();
    this.rowsChanged();
    for (const side of SIDES) this.camera.reset(side);
  }

  /** Shows nothing. */
  clear(): void {
    this.hierarchy = this.chosen = null;
    this.controls.reset();
    this.painter.setHierarchy(null);
    this.invalidate();
  }

  /** Shows one side alone, null for both, or both as one tree. Also for models shown later. */
  setOnly(side: Side | null, isUnified = false): void {
    if (this.only === side && this.isUnified === isUnified) return;
    this.only = side;
    this.isUnified = isUnified;
    const { chosen, hierarchy } = this;
    if (!hierarchy?.graphs[1]) return;
    this.change(chosen, () => {
      hierarchy.only = side;
      hierarchy.isUnified = isUnified;
    });
    this.controls.active = side ?? this.active;
    this.panes.setSides(true, side, isUnified);
    if (chosen) this.show(chosen, false);
  }

  /** What the one tree says of its rows. */
  setFacts(facts: UnifiedFacts): void {
    this.painter.setFacts(facts);
    this.invalidate();
  }

  /** Where the columns of the one tree stand, from the left edge of the host; null without. */
  get columns(): Columns | null {
    const { x, surface } = this.panes.at(Side.NPU);
    const found = this.painter.columns(surface, this.camera.view(Side.NPU), this.extent(Side.NPU));
    return found && { ...found, debug: found.debug + x, reference: found.reference + x };
  }

  /** Shows one micro-step; -1 for all. */
  setMicroStep(microStep: number): void {
    if (!this.hierarchy || this.hierarchy.microStep === microStep) return;
    this.hierarchy.microStep = microStep;
    this.rowsChanged();
    this.camera.set(this.active, { ...this.camera.view(this.active), top: -Infinity });
  }

  setPalette(palette: Palette): void {
    this.painter.setPalette(palette);
    this.panes.paint(palette);
    this.invalidate();
  }

  setColours(colours: Colours): void {
    this.painter.setColours(colours);
    this.invalidate();
  }

  setMarks(marks: Marks): void {
    this.painter.setMarks(marks);
    this.invalidate();
  }

  setMinimap(isShown: boolean): void {
    this.panes.setMinimap(isShown);
  }

  /** Whether both sides scroll, zoom, fold and unfold together. Default true. */
  setSync(isSynced: boolean): void {
    if (this.hierarchy) this.hierarchy.expansion.sync = isSynced;
    this.camera.setSync(isSynced, this.active);
  }

  /** Marks search hits of one side, ascending; they replace those of both sides. */
  setHits(side: Side, indices: Int32Array): void {
    if (this.painter.setHits(side, indices)) this.invalidate();
  }

  /** The share of the width that the first side has, 0…1. */
  get split(): number {
    return this.panes.split;
  }

  set split(part: number) {
    this.panes.split = part;
  }

  // --- selection

  /** Of folded layers, the one to look at first. */
  get selected(): NodeRef | null {
    return this.chosen && this.hierarchy!.node(this.chosen);
  }

  /**
   * Asks the user for a node of a side: those without match are highlighted, and the next one that
   * is clicked, or chosen with Enter, comes as `pick`. Escape ends it with a `pick` of null.
   */
  setPickMode(side: Side | null): void {
    this.controls.setPickMode(side);
  }

  /** The side on which a node is to be picked, null for none. */
  get pickMode(): Side | null {
    return this.controls.pairing.pickMode;
  }

  select(side: Side, index: number | null, options: SelectOptions = {}): void {
    this.choose(index === null ? null : { side, index }, 'program', options);
  }

  private choose(node: NodeRef | null, origin: Origin, options: SelectOptions = {}): void {
    const { hierarchy } = this;
    if (!hierarchy) return;
    this.chosen = node;
    if (node) {
      this.controls.active = node.side;
      if (options.reveal !== false && hierarchy.rowOf(node) < 0) {
        this.change(node, ({ expansion }) => expansion.reveal(node.side, node.index));
      }
      if (origin !== 'pointer') this.show(node, options.centre === true);
    }
    const seen = node ? seenAt(hierarchy, node) : { node, layers: null };
    this.emit('select', { ...seen, origin });
    this.invalidate();
  }

  /** Opens with a node in the middle, without selecting it. */
  bring(node: NodeRef): void {
    const spot = spotOf(this.hierarchy!, node);
    if (spot) this.camera.open(node.side, spot);
  }

  private show(node: NodeRef, centre: boolean): void {
    const spot = spotOf(this.hierarchy!, node);
    if (!spot) return;
    if (centre) this.camera.centre(node.side, spot);
    else this.camera.reach(node.side, spot);
  }

  // --- folding

  toggle(side: Side, index: number): void {
    const { hierarchy } = this;
    if (!hierarchy?.trees[side]?.hasChildren(index)) return;
    const isOpen = hierarchy.expansion.isOpen(side, index);
    this.change({ side, index }, ({ expansion }) => expansion.set(side, index, !isOpen));
  }

  /** Whether layers that follow each other are folded into one row: at first if they are many. */
  get foldsLayers(): boolean {
    return this.hierarchy?.foldsLayers ?? false;
  }

  /** Whether the model has layers that can be folded into one row. */
  get hasLayers(): boolean {
    return this.hierarchy?.hasSeries ?? false;
  }

  /** Also for models shown later. */
  setFoldLayers(areFolded: boolean): void {
    this.wantsFolding = areFolded;
    if (this.foldsLayers === areFolded || !this.hierarchy) return;
    this.chosen = this.selected;
    this.change(this.chosen, (hierarchy) => (hierarchy.foldsLayers = areFolded));
  }

  expandAll(): void {
    this.expand((expansion) => expansion.expandAll());
  }

  /** Changes what is unfolded, see there; the selected node stays where it is. */
  expand(change: (expansion: Expansion) => void): void {
    if (this.hierarchy) this.change(this.chosen, ({ expansion }) => change(expansion));
  }

  /** Lays out anew; `anchor` if it is in view, or else the uppermost node, stays where it is. */
  private change(anchor: NodeRef | null, change: (hierarchy: Hierarchy) => void): void {
    const side = anchor?.side ?? this.active;
    const view = this.camera.view(side);
    const { height } = this.panes.at(side).surface;
    const top = changeInPlace(this.hierarchy!, side, view, height, anchor, change);
    this.rowsChanged();
    this.camera.set(side, { ...view, top });
    this.emit('expandchange', null);
  }

  private rowsChanged(): void {
    this.painter.rowsChanged();
    this.emit('layout', { rows: this.hierarchy!.rows.count });
    this.invalidate();
  }

  // --- scrolling and zooming

  private extent(side: Side): Extent {
    const { width, height } = this.panes.at(side).surface;
    const deepest = this.hierarchy?.deepest ?? 0;
    return {
      ...{ width, height, units: this.hierarchy?.rows.height ?? 0 },
      contentWidth: (rowHeight) => contentWidth(rowHeight, width, deepest),
    };
  }

  private moved(side: Side): void {
    this.emit('viewchange', { side, view: this.camera.view(side) });
    this.invalidate();
  }

  // --- state for a link

  getState(): HierarchyState | null {
    const { hierarchy, camera, active } = this;
    const isApart = !camera.isSynced && this.panes.shown.length > 1;
    return hierarchy && stateOf(hierarchy, camera, active, isApart, this.selected);
  }

  /**
   * Restores what `getState` told; what does not belong to these graphs is ignored. Whether all of
   * it belongs to them.
   */
  setState(state: HierarchyState): boolean {
    const { hierarchy } = this;
    if (!hierarchy) return false;
    if (state.foldLayers !== undefined) this.setFoldLayers(state.foldLayers);
    let isWhole = true;
    this.change(null, () => (isWhole = restoreOpen(hierarchy, state.open)));
    this.choose(known(hierarchy, state.selected), 'program');
    scrollTo(hierarchy, this.camera, this.active, state);
    return isWhole;
  }

  // --- drawing

  /** The boxes in view, at most so many per side: for tests, and for screen readers. */
  scene(most = Infinity): SceneRow[] {
    const { hierarchy } = this;
    if (!hierarchy) return [];
    return this.panes.shown.flatMap((pane) =>
      sceneOf(hierarchy, this.placer(pane.side), pane, this.chosen, most),
    );
  }

  /** An image of what is on screen, twice as sharp, with words around it. */
  toPng(words: PictureWords = {}): Promise<Blob> {
    return toPng(this.picture(words));
  }

  /** The same as an SVG file. */
  toSvg(words: PictureWords = {}): string {
    return toSvg(this.picture(words));
  }

  private picture(words: PictureWords): Picture {
    const at = (side: Side) => [this.camera.view(side), this.extent(side)] as const;
    return pictureOf(this.panes.shown, this.painter, at, this.chosen, words);
  }

  /** Draws now instead of with the next animation frame. */
  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.controls.followRows();
    const { hovered, pairing } = this.controls;
    const attention = { selected: this.chosen, hovered, wanted: pairing.wanted };
    for (const pane of this.panes.shown) {
      const view = this.camera.view(pane.side);
      this.painter.drawSide(pane.side, pane.surface, view, this.extent(pane.side), attention);
    }
    for (const pane of this.panes.mapped) {
      const { height } = this.panes.at(pane.side).surface;
      this.painter.drawMap(pane, this.camera.view(pane.side), height, attention);
    }
  }

  private get active(): Side {
    return this.controls.active;
  }

  private controlled(): Controlled {
    return {
      ...{ panes: this.panes, camera: this.camera },
      hierarchy: () => this.hierarchy,
      selected: () => this.chosen,
      emit: this.emit,
      choose: (node, origin) => this.choose(node, origin),
      toggle: (side, index) => this.toggle(side, index),
      placer: (side) => this.placer(side),
      palette: () => this.painter.palette,
      redraw: () => this.invalidate(),
    };
  }

  private invalidate(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private placer(side: Side): Placer {
    return this.painter.placer(
      this.panes.at(side).surface.ratio,
      this.camera.view(side),
      this.extent(side),
    );
  }
}
