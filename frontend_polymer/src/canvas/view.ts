import type { Graph } from '../data/graph';
import { Grade, Side } from '../generated/graph_pb';
import { decodeOpen, encodeOpen } from '../layout/code';
import { Hierarchy, type NodeRef } from '../layout/hierarchy';
import { rowAt, UNITS_PER_ROW } from '../layout/rows';
import { otherSide, SIDES } from '../layout/sides';
import { chevronRoom } from './content';
import { drawPane } from './draw';
import { contentWidth, geometryOf, Placer } from './geometry';
import { watchPane, type GestureTarget } from './gestures';
import { pressKey, type KeyTarget } from './keys';
import { canvasRuler, Measure } from './measure';
import { drawMinimap, placeAt, Sequence } from './minimap';
import { paletteOf, type Palette, type Theme } from './palette';
import { Panes } from './panes';
import { Pyramid } from './pyramid';
import { sceneOf, type SceneRow } from './scene';
import { Tones, type ColourMode } from './tone';
import {
  blend,
  centreOn,
  clamp,
  fit,
  panBy,
  ROW_HEIGHT,
  scrollInto,
  unitAt,
  yOf,
  zoomAt,
  type Extent,
  type View,
} from './viewport';

/** Who changed something: events of the program's own calls need no answer. */
export type Origin = 'pointer' | 'keyboard' | 'program';

export interface HierarchyEvents {
  /** Another node is selected, or none. */
  select: { readonly node: NodeRef | null; readonly origin: Origin };
  /** The pointer rests on another node, or on none; x and y are client coordinates. */
  hover: { readonly node: NodeRef | null; readonly x: number; readonly y: number };
  /** A menu is asked for; the browser's own is suppressed when a node was hit. */
  menu: { readonly node: NodeRef; readonly x: number; readonly y: number };
  /** Scrolled, zoomed or resized. */
  viewchange: { readonly view: View };
  /** Something was folded or unfolded. */
  expandchange: Record<string, never>;
  /** The rows are new. */
  layout: { readonly rows: number };
}

/** What a link to a view has to hold. */
export interface HierarchyState {
  /** Unfolded nodes per side; the second is empty where it follows from the first. */
  readonly open: readonly [string, string];
  readonly selected: NodeRef | null;
  readonly zoom: number;
  /** The row at the upper edge. */
  readonly top: number;
  readonly left: number;
}

export interface SelectOptions {
  /** Scroll the node to the middle. Without it the view moves only if the node is outside. */
  readonly centre?: boolean;
  /** Unfold what hides the node, here and around its counterpart. Default true. */
  readonly reveal?: boolean;
}

const NOTHING = new Int32Array();
const ANIMATION_MS = 140;

/**
 * Both hierarchies side by side, in a host element that has a size of its own.
 *
 * ```ts
 * const view = new HierarchyView(host);
 * view.setGraphs(Graph.decode(npuBytes), Graph.decode(benchBytes));
 * view.on('select', ({ node }) => showDetails(node));
 * ```
 */
export class HierarchyView extends EventTarget implements GestureTarget, KeyTarget {
  private readonly panes: Panes;
  private readonly measure: Measure;
  private hierarchy: Hierarchy | null = null;
  private readonly views: [View, View] = [initialView(), initialView()];
  private palette: Palette = paletteOf('light');
  private mode: ColourMode = 'precision';
  private tones: [Tones | null, Tones | null] = [null, null];
  private pyramids: [Pyramid | null, Pyramid | null] = [null, null];
  private hits: [Int32Array, Int32Array] = [NOTHING, NOTHING];
  private chosen: NodeRef | null = null;
  private hovered: NodeRef | null = null;
  private hoverRow = -1;
  private active: Side = Side.NPU;
  private isSynced = true;
  private frame = 0;
  private animation = 0;

  constructor(host: HTMLElement) {
    super();
    this.panes = new Panes(host, () => this.resized());
    this.measure = new Measure(canvasRuler(document.createElement('canvas').getContext('2d')!));
    for (const pane of this.panes.list) watchPane(pane, this);
    this.panes.root.addEventListener('keydown', (event) => {
      if (this.hierarchy && pressKey(event, this)) event.preventDefault();
    });
    this.panes.paint(this.palette);
    this.panes.arrange();
  }

  /** Takes the elements out of the host. The view cannot be used again. */
  dispose(): void {
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.animation);
    this.panes.dispose();
  }

  /** Listens to an event; the returned function ends it. */
  on<K extends keyof HierarchyEvents>(
    type: K,
    listener: (detail: HierarchyEvents[K]) => void,
  ): () => void {
    const forward = (event: Event) => listener((event as CustomEvent<HierarchyEvents[K]>).detail);
    this.addEventListener(type, forward);
    return () => this.removeEventListener(type, forward);
  }

  // --- what is shown

  /** Shows two graphs, or one when there is no reference. Selection and hits are dropped. */
  setGraphs(npu: Graph, bench: Graph | null): void {
    this.hierarchy = new Hierarchy([npu, bench]);
    this.hierarchy.expansion.sync = this.isSynced;
    this.chosen = null;
    this.hovered = null;
    this.hits = [NOTHING, NOTHING];
    this.active = Side.NPU;
    this.setTones();
    this.panes.setDouble(bench !== null);
    this.layoutChanged();
    this.setView(Side.NPU, { rowHeight: ROW_HEIGHT, top: -Infinity, left: 0 });
    this.setView(Side.BENCH, this.views[0]);
  }

  /** Shows nothing. */
  clear(): void {
    this.hierarchy = null;
    this.chosen = null;
    this.hovered = null;
    this.invalidate();
  }

  /** Shows one micro-step; -1 for all. */
  setMicroStep(microStep: number): void {
    if (!this.hierarchy || this.hierarchy.microStep === microStep) return;
    this.hierarchy.microStep = microStep;
    this.layoutChanged();
    this.setView(this.active, { ...this.views[this.active], top: -Infinity });
  }

  setTheme(theme: Theme): void {
    this.palette = paletteOf(theme);
    this.panes.paint(this.palette);
    this.invalidate();
  }

  /** Colours by error or by overflow level. */
  setColourMode(mode: ColourMode): void {
    this.mode = mode;
    this.setTones();
    this.invalidate();
  }

  setMinimap(isShown: boolean): void {
    this.panes.setMinimap(isShown);
  }

  /** Whether both sides scroll, zoom, fold and unfold together. */
  setSync(isSynced: boolean): void {
    this.isSynced = isSynced;
    if (this.hierarchy) this.hierarchy.expansion.sync = isSynced;
    if (isSynced) this.setView(this.active, this.views[this.active]);
  }

  /** Marks search hits of one side; they come ascending, and replace those of both sides. */
  setHits(side: Side, indices: Int32Array): void {
    this.hits = side === Side.NPU ? [indices, NOTHING] : [NOTHING, indices];
    this.invalidate();
  }

  /** The share of the width that the first side has, 0…1. */
  get split(): number {
    return this.panes.split;
  }

  set split(part: number) {
    this.panes.split = part;
  }

  // --- selection

  get selected(): NodeRef | null {
    return this.chosen;
  }

  /** The node opposite, matched or evidently the same call; null when there is none. */
  counterpart(node: NodeRef): NodeRef | null {
    return this.hierarchy?.counterpart(node) ?? null;
  }

  select(side: Side, index: number | null, options: SelectOptions = {}): void {
    this.choose(index === null ? null : { side, index }, 'program', options);
  }

  private choose(node: NodeRef | null, origin: Origin, options: SelectOptions = {}): void {
    const { hierarchy } = this;
    if (!hierarchy) return;
    this.chosen = node;
    if (node) {
      this.active = node.side;
      if (options.reveal !== false && hierarchy.rowOf(node) < 0) {
        hierarchy.expansion.reveal(node.side, node.index);
        this.expansionChanged(node);
      }
      if (origin !== 'pointer') this.show(node, options.centre === true);
    }
    this.emit('select', { node, origin });
    this.invalidate();
  }

  private show(node: NodeRef, centre: boolean): void {
    const shown = this.hierarchy!.shown(node);
    if (!shown) return;
    const unit = this.hierarchy!.rows.top[this.hierarchy!.rowOf(shown)]!;
    const view = this.views[node.side];
    const extent = this.extent(node.side);
    // A name cannot be read in an overview: come closer.
    const near = centre ? { ...view, rowHeight: Math.max(view.rowHeight, 16) } : view;
    const target = centre
      ? centreOn(near, extent, unit + UNITS_PER_ROW / 2)
      : scrollInto(view, extent, unit);
    this.animateTo(node.side, target);
  }

  // --- folding

  isExpanded(node: NodeRef): boolean {
    return this.hierarchy?.expansion.isOpen(node.side, node.index) ?? false;
  }

  toggle(side: Side, index: number): void {
    const { hierarchy } = this;
    if (!hierarchy?.graphs[side]?.hasChildren(index)) return;
    const isOpen = hierarchy.expansion.isOpen(side, index);
    hierarchy.expansion.set(side, index, !isOpen);
    this.expansionChanged({ side, index });
  }

  expandAll(): void {
    this.changeExpansion((expansion) => expansion.expandAll());
  }

  /** Folds everything below the root. */
  collapseAll(): void {
    this.changeExpansion((expansion) => expansion.collapseAll());
  }

  /** Shows nodes down to this depth; the root is at depth 0. */
  expandToLevel(level: number): void {
    this.changeExpansion((expansion) => expansion.toLevel(level));
  }

  /** Unfolds exactly the paths to nodes of this grade or worse. */
  expandToErrors(least: Grade = Grade.SERIOUS): void {
    this.changeExpansion((expansion) => expansion.toErrors(least));
  }

  private changeExpansion(change: (expansion: Hierarchy['expansion']) => void): void {
    if (!this.hierarchy) return;
    change(this.hierarchy.expansion);
    this.expansionChanged(this.chosen);
  }

  /** Lays out anew; `anchor`, or else what is at the upper edge, stays where it is. */
  private expansionChanged(anchor: NodeRef | null): void {
    const hierarchy = this.hierarchy!;
    const side = anchor?.side ?? this.active;
    const view = this.views[side];
    const { height } = this.panes.list[side].surface;
    const yOfNode = (node: NodeRef) => yOf(view, hierarchy.rows.top[hierarchy.rowOf(node)]!);
    let held = anchor && hierarchy.shown(anchor);
    if (!held || yOfNode(held) < 0 || yOfNode(held) > height) {
      held = hierarchy.nodeNear(unitAt(view, 0));
    }
    const y = yOfNode(held);
    hierarchy.relayout();
    this.layoutChanged();
    const shown = hierarchy.shown(held) ?? { side, index: 0 };
    const unit = hierarchy.rows.top[hierarchy.rowOf(shown)]!;
    this.setView(side, { ...view, top: unit - (y / view.rowHeight) * UNITS_PER_ROW });
    this.emit('expandchange', {});
  }

  private layoutChanged(): void {
    this.pyramids = [null, null];
    this.hoverRow = -1;
    this.emit('layout', { rows: this.hierarchy!.rows.count });
    this.invalidate();
  }

  // --- scrolling and zooming

  /** Shows everything that is unfolded. */
  fit(): void {
    this.animateTo(this.active, fit(this.extent(this.active)));
  }

  /** Zooms around the middle of the active side. */
  zoomBy(factor: number): void {
    const { width, height } = this.panes.list[this.active].surface;
    this.zoom(this.active, factor, width / 2, height / 2);
  }

  resetZoom(): void {
    this.zoomBy(ROW_HEIGHT / this.views[this.active].rowHeight);
  }

  panBy(dx: number, dy: number): void {
    this.pan(this.active, dx, dy);
  }

  private extent(side: Side): Extent {
    const { width, height } = this.panes.list[side].surface;
    const deepest = this.hierarchy?.graphs[side]?.deepest ?? 0;
    return {
      ...{ width, height, units: this.hierarchy?.rows.height ?? 0 },
      contentWidth: (rowHeight) => contentWidth(rowHeight, width, deepest),
    };
  }

  private setView(side: Side, view: View): void {
    cancelAnimationFrame(this.animation);
    this.moveTo(side, view);
  }

  private moveTo(side: Side, view: View): void {
    this.views[side] = clamp(view, this.extent(side));
    const other = otherSide(side);
    if (this.isSynced) this.views[other] = clamp(this.views[side], this.extent(other));
    this.emit('viewchange', { view: this.views[side] });
    this.invalidate();
  }

  private animateTo(side: Side, target: View): void {
    cancelAnimationFrame(this.animation);
    const from = this.views[side];
    const far = Math.abs(yOf(from, target.top)) > 3 * this.panes.list[side].surface.height;
    if (far || matchMedia('(prefers-reduced-motion: reduce)').matches) {
      this.moveTo(side, target);
      return;
    }
    const start = performance.now();
    const step = (now: number) => {
      const progress = Math.max(0, Math.min(1, (now - start) / ANIMATION_MS));
      this.moveTo(side, blend(from, target, progress));
      if (progress < 1) this.animation = requestAnimationFrame(step);
    };
    this.animation = requestAnimationFrame(step);
  }

  private resized(): void {
    if (this.hierarchy) this.setView(this.active, this.views[this.active]);
  }

  // --- state for a link

  getState(): HierarchyState | null {
    const { hierarchy } = this;
    if (!hierarchy) return null;
    const [npu, bench] = hierarchy.graphs;
    const { open } = hierarchy.expansion;
    const { rowHeight, top, left } = this.views[this.active];
    return {
      open: [encodeOpen(npu, open[0]), bench ? encodeOpen(bench, open[1]) : ''],
      selected: this.chosen,
      zoom: rowHeight / ROW_HEIGHT,
      top: top / UNITS_PER_ROW,
      left,
    };
  }

  /** Restores what `getState` told; what does not belong to these graphs is ignored. */
  setState(state: HierarchyState): void {
    const { hierarchy } = this;
    if (!hierarchy) return;
    for (const side of SIDES) {
      const graph = hierarchy.graphs[side];
      const open = graph && decodeOpen(graph, state.open[side]);
      if (open) hierarchy.expansion.open[side].set(open);
    }
    this.expansionChanged(null);
    const { selected } = state;
    const count = selected ? (hierarchy.graphs[selected.side]?.count ?? 0) : 0;
    this.choose(selected && selected.index < count ? selected : null, 'program');
    this.setView(this.active, {
      ...{ rowHeight: state.zoom * ROW_HEIGHT, top: state.top * UNITS_PER_ROW, left: state.left },
    });
  }

  // --- drawing

  /** The boxes in view, for tests and for the outline that screen readers get. */
  scene(): SceneRow[] {
    const { hierarchy } = this;
    if (!hierarchy) return [];
    return this.panes.shown.flatMap(({ side, surface, x }) =>
      sceneOf(hierarchy, side, this.placer(side), { x, height: surface.height }, this.nodeOn(side)),
    );
  }

  /** Draws now instead of with the next animation frame. */
  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const { side, surface, minimap } of this.panes.shown)
      this.drawSide(side, surface, minimap);
  }

  private drawSide(
    side: Side,
    surface: Panes['list'][0]['surface'],
    minimap: Panes['list'][0]['minimap'],
  ): void {
    const { hierarchy, palette } = this;
    const graph = hierarchy?.graphs[side];
    const tones = this.tones[side];
    if (!hierarchy || !graph || !tones) {
      for (const { context, canvas } of [surface, minimap]) {
        context.fillStyle = palette.background;
        context.fillRect(0, 0, canvas.width, canvas.height);
      }
      return;
    }
    const { rows, expansion, microStep } = hierarchy;
    const common = {
      ...{ side, graph, rows, tones, palette, view: this.views[side] },
      ...{ open: expansion.open[side], hits: this.hits[side], selected: this.nodeOn(side) },
    };
    const { contentWidth, geometry } = this.placer(side);
    const beside =
      this.chosen?.side === otherSide(side) ? hierarchy.counterpart(this.chosen) : null;
    drawPane({
      ...common,
      ...{ context: surface.context, width: surface.width, height: surface.height },
      ...{ ratio: surface.ratio, geometry, contentWidth, measure: this.measure },
      pyramid: () => (this.pyramids[side] ??= new Pyramid(rows, side, graph, common.open, tones)),
      counterpart: beside?.index ?? -1,
      hover: this.hoverRow,
    });
    drawMinimap({ ...common, surface: minimap, microStep, paneHeight: surface.height });
  }

  private invalidate(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private placer(side: Side): Placer {
    const { surface } = this.panes.list[side];
    const view = this.views[side];
    const width = this.extent(side).contentWidth(view.rowHeight);
    const { rows } = this.hierarchy!;
    return new Placer(rows, view, geometryOf(view.rowHeight), width, surface.ratio);
  }

  private setTones(): void {
    const graphs = this.hierarchy?.graphs;
    if (!graphs) return;
    const [npu, bench] = graphs;
    this.tones = [new Tones(npu, this.mode), bench && new Tones(bench, this.mode)];
    this.pyramids = [null, null];
  }

  private nodeOn(side: Side): number {
    return this.chosen?.side === side ? this.chosen.index : -1;
  }

  private emit<K extends keyof HierarchyEvents>(type: K, detail: HierarchyEvents[K]): void {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // --- gestures

  focus(): void {
    this.panes.root.focus({ preventScroll: true });
  }

  private hitAt(side: Side, x: number, y: number): (NodeRef & { onChevron: boolean }) | null {
    const { hierarchy } = this;
    if (!hierarchy) return null;
    const { rows } = hierarchy;
    const unit = unitAt(this.views[side], y);
    if (unit < 0 || unit >= rows.height) return null;
    const placer = this.placer(side);
    let row = rowAt(rows, unit);
    const isRow = unit < rows.top[row]! + UNITS_PER_ROW;
    const isBox = (at: number) => {
      const index = rows.node[side][at]!;
      const box = placer.block(at);
      const isInside = x >= box.x && x < box.x + box.width && unit < rows.bottom[at]!;
      return index >= 0 && isInside && (at === row || hierarchy.expansion.isOpen(side, index));
    };
    if (!isRow) row = rows.parent[row]!;
    while (row >= 0 && !isBox(row)) row = rows.parent[row]!;
    if (row < 0) return null;
    const { font } = placer.geometry;
    const index = rows.node[side][row]!;
    const inChevron = font > 0 && isRow && x < placer.row(row).x + chevronRoom(font) + 2;
    const onChevron = inChevron && hierarchy.graphs[side]!.hasChildren(index);
    return { side, index, onChevron };
  }

  clickAt(side: Side, x: number, y: number): void {
    this.active = side;
    const hit = this.hitAt(side, x, y);
    if (hit?.onChevron) this.toggle(hit.side, hit.index);
    else if (hit) this.choose({ side: hit.side, index: hit.index }, 'pointer');
  }

  doubleClickAt(side: Side, x: number, y: number): void {
    const hit = this.hitAt(side, x, y);
    if (hit && !hit.onChevron) this.toggle(hit.side, hit.index);
  }

  menuAt(side: Side, x: number, y: number, event: MouseEvent): void {
    const hit = this.hitAt(side, x, y);
    if (!hit) return;
    event.preventDefault();
    const node = { side: hit.side, index: hit.index };
    this.emit('menu', { node, x: event.clientX, y: event.clientY });
  }

  hoverAt(side: Side, x: number, y: number, event: PointerEvent): void {
    const hit = this.hitAt(side, x, y);
    const { canvas } = this.panes.list[side].surface;
    canvas.style.cursor = hit ? 'pointer' : 'default';
    const isSame = hit?.index === this.hovered?.index && hit?.side === this.hovered?.side;
    if (isSame) return;
    this.hovered = hit && { side: hit.side, index: hit.index };
    this.hoverRow = this.hovered ? this.hierarchy!.rowOf(this.hovered) : -1;
    this.emit('hover', { node: this.hovered, x: event.clientX, y: event.clientY });
    this.invalidate();
  }

  leave(): void {
    if (!this.hovered) return;
    this.hovered = null;
    this.hoverRow = -1;
    this.emit('hover', { node: null, x: 0, y: 0 });
    this.invalidate();
  }

  pan(side: Side, dx: number, dy: number): void {
    this.setView(side, panBy(this.views[side], this.extent(side), dx, dy));
  }

  zoom(side: Side, factor: number, x: number, y: number): void {
    this.setView(side, zoomAt(this.views[side], this.extent(side), factor, x, y));
  }

  travel(side: Side, y: number): void {
    const graph = this.hierarchy?.graphs[side];
    if (!graph) return;
    const sequence = new Sequence(graph, this.hierarchy!.microStep);
    if (sequence.length === 0) return;
    const { height } = this.panes.list[side].minimap;
    const index = sequence.node(placeAt(sequence, y, height));
    const shown = this.hierarchy!.shown({ side, index });
    if (!shown) return;
    const unit = this.hierarchy!.rows.top[this.hierarchy!.rowOf(shown)]!;
    this.setView(side, centreOn(this.views[side], this.extent(side), unit));
  }

  // --- keyboard

  step(rows: number): void {
    const hierarchy = this.hierarchy!;
    const shown = this.chosen && hierarchy.shown(this.chosen);
    const side = shown?.side ?? this.active;
    const from = shown ? hierarchy.rowOf(shown) : -1;
    const aim = Math.max(0, Math.min(hierarchy.rows.count - 1, from + rows));
    const direction = rows < 0 ? -1 : 1;
    let row = hierarchy.rowWithNode(side, aim, direction);
    if (row < 0) row = hierarchy.rowWithNode(side, aim, direction === 1 ? -1 : 1);
    if (row >= 0) this.chooseByKey({ side, index: hierarchy.rows.node[side][row]! });
  }

  page(direction: 1 | -1): void {
    const { rowHeight } = this.views[this.active];
    const { height } = this.panes.list[this.active].surface;
    this.step(direction * Math.max(1, Math.floor(height / rowHeight) - 1));
  }

  first(): void {
    this.step(-Infinity);
  }

  last(): void {
    this.step(Infinity);
  }

  inward(): void {
    const { chosen, hierarchy } = this;
    if (!chosen) {
      this.step(1);
      return;
    }
    if (!hierarchy!.graphs[chosen.side]!.hasChildren(chosen.index)) return;
    if (!this.isExpanded(chosen)) this.toggle(chosen.side, chosen.index);
    else this.step(1);
  }

  outward(): void {
    const { chosen, hierarchy } = this;
    if (!chosen) return;
    if (this.isExpanded(chosen)) {
      this.toggle(chosen.side, chosen.index);
      return;
    }
    const above = hierarchy!.graphs[chosen.side]!.parent[chosen.index]!;
    if (above >= 0) this.chooseByKey({ side: chosen.side, index: above });
  }

  toggleSelected(): void {
    if (this.chosen) this.toggle(this.chosen.side, this.chosen.index);
  }

  cross(): void {
    const other = this.chosen && this.counterpart(this.chosen);
    if (other) this.chooseByKey(other);
  }

  private chooseByKey(node: NodeRef): void {
    this.choose(node, 'keyboard');
  }
}

function initialView(): View {
  return { rowHeight: ROW_HEIGHT, top: 0, left: 0 };
}
