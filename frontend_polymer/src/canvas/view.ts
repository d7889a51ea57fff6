import type { Graph } from '../data/graph';
import { Grade, Side } from '../generated/graph_pb';
import { decodeOpen, encodeOpen } from '../layout/code';
import { firstLevel, type Expansion } from '../layout/expansion';
import { Hierarchy, type NodeRef } from '../layout/hierarchy';
import { UNITS_PER_ROW } from '../layout/rows';
import { SIDES } from '../layout/sides';
import { parentOf, stepFrom } from '../layout/walk';
import { Camera } from './camera';
import { contentWidth } from './geometry';
import { watchPane, type GestureTarget } from './gestures';
import { hitAt, type Hit } from './hit';
import { pressKey, type KeyTarget } from './keys';
import { placeAt, Sequence } from './minimap';
import { Painter } from './painter';
import type { Theme } from './palette';
import { Panes } from './panes';
import { sceneOf, type SceneRow } from './scene';
import type { ColourMode } from './tone';
import { ROW_HEIGHT, unitAt, yOf, type Extent, type View } from './viewport';

/** Who changed something; an element that changed it itself may ignore the event. */
export type Origin = 'pointer' | 'keyboard' | 'program';

/** The events of a `HierarchyView` and their details. */
export interface HierarchyEvents {
  /** Another node is selected, or none. */
  select: { readonly node: NodeRef | null; readonly origin: Origin };
  /** The pointer is over another node, or over none; x and y are client coordinates. */
  hover: { readonly node: NodeRef | null; readonly x: number; readonly y: number };
  /** A menu is asked for on a node; the browser's own is suppressed. */
  menu: { readonly node: NodeRef; readonly x: number; readonly y: number };
  /** Scrolled, zoomed or resized. */
  viewchange: { readonly side: Side; readonly view: View };
  /** Something was folded or unfolded. */
  expandchange: null;
  /** The rows are new. */
  layout: { readonly rows: number };
}

/** What a link to a view has to hold. */
export interface HierarchyState {
  /** Unfolded nodes per side, see layout/code.ts. */
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

/**
 * Both hierarchies side by side, in a host element that has a size of its own.
 *
 * ```ts
 * const view = new HierarchyView(host);
 * view.setGraphs(await fetchGraph(npuKey), await fetchGraph(benchKey));
 * view.expandToFirst();
 * view.on('select', ({ node }) => showDetails(node));
 * ```
 *
 * The host gets a focusable element inside; keys work while that has the focus. Row positions of
 * `scene()` are relative to the host.
 */
export class HierarchyView extends EventTarget {
  private readonly panes: Panes;
  private readonly painter = new Painter();
  private readonly camera: Camera;
  private hierarchy: Hierarchy | null = null;
  private chosen: NodeRef | null = null;
  private hovered: NodeRef | null = null;
  /** The side that keys and buttons act on: the one used last. */
  private active: Side = Side.NPU;
  private frame = 0;

  constructor(host: HTMLElement) {
    super();
    this.camera = new Camera(
      (side) => this.extent(side),
      (side) => this.moved(side),
    );
    this.panes = new Panes(host, () => this.camera.update(this.active));
    for (const pane of this.panes.list) watchPane(pane, this.gestures());
    const keys = this.keys();
    this.panes.root.addEventListener('keydown', (event) => {
      if (this.hierarchy && pressKey(event, keys)) event.preventDefault();
    });
    this.panes.paint(this.painter.palette);
    this.panes.arrange();
  }

  /** Takes the elements out of the host. The view cannot be used again. */
  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.camera.stop();
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
    this.hierarchy.expansion.sync = this.camera.isSynced;
    this.painter.setHierarchy(this.hierarchy);
    this.chosen = this.hovered = null;
    this.active = Side.NPU;
    this.panes.setDouble(bench !== null);
    this.rowsChanged();
    for (const side of SIDES) this.camera.reset(side);
  }

  /** Shows nothing. */
  clear(): void {
    this.hierarchy = this.chosen = this.hovered = null;
    this.painter.setHierarchy(null);
    this.invalidate();
  }

  /** Shows one micro-step; -1 for all. */
  setMicroStep(microStep: number): void {
    if (!this.hierarchy || this.hierarchy.microStep === microStep) return;
    this.hierarchy.microStep = microStep;
    this.rowsChanged();
    this.camera.set(this.active, { ...this.camera.view(this.active), top: -Infinity });
  }

  setTheme(theme: Theme): void {
    this.painter.setTheme(theme);
    this.panes.paint(this.painter.palette);
    this.invalidate();
  }

  /** Colours by error or by overflow level. */
  setColourMode(mode: ColourMode): void {
    this.painter.setMode(mode);
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
    this.painter.setHits(side, indices);
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
    const unit = this.topOf(node);
    if (unit === null) return;
    if (centre) this.camera.centre(node.side, unit);
    else this.camera.reach(node.side, unit);
  }

  /** Where the row of a node begins, or of the folded module that hides it. */
  private topOf(node: NodeRef): number | null {
    const { hierarchy } = this;
    const shown = hierarchy?.shown(node);
    return shown ? hierarchy!.rows.top[hierarchy!.rowOf(shown)]! : null;
  }

  // --- folding

  isExpanded({ side, index }: NodeRef): boolean {
    return this.hierarchy?.expansion.isOpen(side, index) ?? false;
  }

  toggle(side: Side, index: number): void {
    const { hierarchy } = this;
    if (!hierarchy?.graphs[side]?.hasChildren(index)) return;
    const isOpen = hierarchy.expansion.isOpen(side, index);
    hierarchy.expansion.set(side, index, !isOpen);
    this.expansionChanged({ side, index });
  }

  expandAll(): void {
    this.expand((expansion) => expansion.expandAll());
  }

  /** Unfolds a node and everything below it. */
  expandBelow(side: Side, index: number): void {
    this.expand((expansion) => expansion.expandBelow(side, index));
  }

  /** Folds everything below the root. */
  collapseAll(): void {
    this.expand((expansion) => expansion.collapseAll());
  }

  /** Shows nodes down to this depth; the root is at depth 0. */
  expandToLevel(level: number): void {
    this.expand((expansion) => expansion.toLevel(level));
  }

  /** Shows nodes down to the first depth that has one of this grade or worse. */
  expandToFirst(least: Grade = Grade.MODERATE): void {
    if (this.hierarchy) this.expandToLevel(firstLevel(this.hierarchy.graphs[0], least));
  }

  /** Unfolds exactly the paths to nodes of this grade or worse. */
  expandToErrors(least: Grade = Grade.SERIOUS): void {
    this.expand((expansion) => expansion.toErrors(least));
  }

  private expand(change: (expansion: Expansion) => void): void {
    if (!this.hierarchy) return;
    change(this.hierarchy.expansion);
    this.expansionChanged(this.chosen);
  }

  /** Lays out anew; `anchor` if it is in view, or else the uppermost node, stays where it is. */
  private expansionChanged(anchor: NodeRef | null): void {
    const hierarchy = this.hierarchy!;
    const side = anchor?.side ?? this.active;
    const view = this.camera.view(side);
    const { height } = this.panes.list[side].surface;
    let held = anchor ?? { side, index: 0 };
    let y = yOf(view, this.topOf(held) ?? -Infinity);
    if (y < 0 || y > height) {
      held = hierarchy.nodeNear(unitAt(view, 0));
      y = yOf(view, this.topOf(held)!);
    }
    hierarchy.relayout();
    this.rowsChanged();
    const top = (this.topOf(held) ?? 0) - (y / view.rowHeight) * UNITS_PER_ROW;
    this.camera.set(side, { ...view, top });
    this.emit('expandchange', null);
  }

  private rowsChanged(): void {
    this.painter.rowsChanged();
    this.emit('layout', { rows: this.hierarchy!.rows.count });
    this.invalidate();
  }

  // --- scrolling and zooming

  /** Shows everything that is unfolded. */
  fit(): void {
    this.camera.fit(this.active);
  }

  /** Zooms around the middle of the side used last. */
  zoomBy(factor: number): void {
    this.camera.zoom(this.active, factor);
  }

  /** Back to rows of normal height. */
  resetZoom(): void {
    this.zoomBy(ROW_HEIGHT / this.camera.view(this.active).rowHeight);
  }

  panBy(dx: number, dy: number): void {
    this.camera.pan(this.active, dx, dy);
  }

  private extent(side: Side): Extent {
    const { width, height } = this.panes.list[side].surface;
    const deepest = this.hierarchy?.graphs[side]?.deepest ?? 0;
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
    const { hierarchy } = this;
    if (!hierarchy) return null;
    const [npu, bench] = hierarchy.graphs;
    const { open } = hierarchy.expansion;
    const { rowHeight, top, left } = this.camera.view(this.active);
    return {
      open: [encodeOpen(npu, open[0]), bench ? encodeOpen(bench, open[1]) : ''],
      selected: this.chosen,
      ...{ zoom: rowHeight / ROW_HEIGHT, top: top / UNITS_PER_ROW, left },
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
    const { selected, zoom, top, left } = state;
    const count = selected ? (hierarchy.graphs[selected.side]?.count ?? 0) : 0;
    const isKnown = selected !== null && selected.index >= 0 && selected.index < count;
    this.choose(isKnown ? selected : null, 'program');
    this.camera.set(this.active, {
      ...{ rowHeight: zoom * ROW_HEIGHT, top: top * UNITS_PER_ROW, left },
    });
  }

  // --- drawing

  /** The boxes in view: for tests, and for the outline that screen readers get. */
  scene(): SceneRow[] {
    const { hierarchy } = this;
    if (!hierarchy) return [];
    return this.panes.shown.flatMap((pane) =>
      sceneOf(hierarchy, this.placer(pane.side), pane, this.chosen),
    );
  }

  /** Draws now instead of with the next animation frame. */
  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const attention = { selected: this.chosen, hovered: this.hovered };
    for (const pane of this.panes.shown) {
      this.painter.draw(pane, this.camera.view(pane.side), this.extent(pane.side), attention);
    }
  }

  private invalidate(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private placer(side: Side) {
    return this.painter.placer(this.panes.list[side], this.camera.view(side), this.extent(side));
  }

  private emit<K extends keyof HierarchyEvents>(type: K, detail: HierarchyEvents[K]): void {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // --- gestures and keys

  private hitAt(side: Side, x: number, y: number): Hit | null {
    return this.hierarchy && hitAt(this.hierarchy, side, this.placer(side), x, y);
  }

  private gestures(): GestureTarget {
    return {
      focus: () => this.panes.root.focus({ preventScroll: true }),
      clickAt: (side, x, y) => {
        this.active = side;
        const hit = this.hitAt(side, x, y);
        if (hit?.onChevron) this.toggle(side, hit.node.index);
        else if (hit) this.choose(hit.node, 'pointer');
      },
      doubleClickAt: (side, x, y) => {
        const hit = this.hitAt(side, x, y);
        if (hit && !hit.onChevron) this.toggle(side, hit.node.index);
      },
      menuAt: (side, x, y, event) => {
        const hit = this.hitAt(side, x, y);
        if (!hit) return;
        event.preventDefault();
        this.emit('menu', { node: hit.node, x: event.clientX, y: event.clientY });
      },
      hoverAt: (side, x, y, event) => {
        const node = this.hitAt(side, x, y)?.node ?? null;
        this.panes.list[side].surface.canvas.style.cursor = node ? 'pointer' : 'default';
        this.hover(node, event.clientX, event.clientY);
      },
      leave: () => this.hover(null, 0, 0),
      pan: (side, dx, dy) => this.camera.pan(side, dx, dy),
      zoom: (side, factor, x, y) => this.camera.zoom(side, factor, x, y),
      travel: (side, y) => this.travel(side, y),
    };
  }

  private hover(node: NodeRef | null, x: number, y: number): void {
    if (node?.index === this.hovered?.index && node?.side === this.hovered?.side) return;
    this.hovered = node;
    this.emit('hover', { node, x, y });
    this.invalidate();
  }

  private travel(side: Side, y: number): void {
    const graph = this.hierarchy?.graphs[side];
    if (!graph) return;
    const sequence = new Sequence(graph, this.hierarchy!.microStep);
    if (sequence.length === 0) return;
    const { height } = this.panes.list[side].minimap;
    const unit = this.topOf({ side, index: sequence.node(placeAt(sequence, y, height)) });
    if (unit !== null) this.camera.travel(side, unit);
  }

  private keys(): KeyTarget {
    const page = () => {
      const { height } = this.panes.list[this.active].surface;
      return Math.max(1, Math.floor(height / this.camera.view(this.active).rowHeight) - 1);
    };
    return {
      step: (rows) => this.step(rows),
      page: (direction) => this.step(direction * page()),
      first: () => this.step(-Infinity),
      last: () => this.step(Infinity),
      inward: () => this.inward(),
      outward: () => this.outward(),
      toggleSelected: () => {
        if (this.chosen) this.toggle(this.chosen.side, this.chosen.index);
      },
      cross: () => {
        const other = this.chosen && this.counterpart(this.chosen);
        if (other) this.choose(other, 'keyboard');
      },
      zoomBy: (factor) => this.zoomBy(factor),
      resetZoom: () => this.resetZoom(),
      fit: () => this.fit(),
      panBy: (dx, dy) => this.panBy(dx, dy),
    };
  }

  private step(rows: number): void {
    this.choose(stepFrom(this.hierarchy!, this.active, this.chosen, rows), 'keyboard');
  }

  private inward(): void {
    const { chosen } = this;
    const isLeaf = chosen && !this.hierarchy!.graphs[chosen.side]!.hasChildren(chosen.index);
    if (isLeaf) return;
    if (!chosen || this.isExpanded(chosen)) this.step(1);
    else this.toggle(chosen.side, chosen.index);
  }

  private outward(): void {
    const { chosen } = this;
    if (!chosen) return;
    const parent = parentOf(this.hierarchy!, chosen);
    if (this.isExpanded(chosen)) this.toggle(chosen.side, chosen.index);
    else if (parent) this.choose(parent, 'keyboard');
  }
}
