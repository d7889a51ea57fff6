import { Side } from '../generated/graph_pb';
import { SIDES, type PerSide } from '../layout/sides';
import { MINIMAP_WIDTH } from './minimap';
import type { Palette } from './palette';
import { Surface } from './surface';

const SPLITTER_WIDTH = 7;
const NARROWEST = 160;

export interface Pane {
  readonly side: Side;
  readonly surface: Surface;
  readonly minimap: Surface;
  /** From the left edge of the host, in CSS pixels. */
  x: number;
}

/**
 * The elements inside the host: per side a canvas and a minimap at its outer edge, and between the
 * sides a splitter. With one graph only the first side is there, its minimap at the right; as one
 * tree both share its pane, and each keeps its minimap.
 */
export class Panes {
  readonly root = document.createElement('div');
  readonly list: PerSide<Pane>;
  private readonly splitter = document.createElement('div');
  private readonly observer: ResizeObserver;
  private part = 0.5;
  private sides: readonly Side[] = [Side.NPU];
  private hasMinimap = true;
  private isUnified = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly resized: () => void,
    /** Frames have drawn already when a new size is told, and it has wiped what they drew. */
    private readonly draw: () => void,
  ) {
    const pane = (side: Side): Pane => ({
      side,
      surface: new Surface(),
      minimap: new Surface(),
      x: 0,
    });
    this.list = [pane(Side.NPU), pane(Side.BENCH)];
    Object.assign(this.root.style, {
      ...{ position: 'relative', width: '100%', height: '100%', overflow: 'hidden' },
      ...{ outline: 'none', userSelect: 'none' },
    });
    this.root.tabIndex = 0;
    for (const { surface, minimap } of this.list) this.root.append(surface.canvas, minimap.canvas);
    this.root.append(this.splitter);
    this.prepareSplitter();
    host.append(this.root);
    this.observer = new ResizeObserver(() => {
      this.arrange();
      this.draw();
    });
    this.observer.observe(host);
  }

  /** The panes that are shown. */
  get shown(): Pane[] {
    return this.sides.map((side) => this.list[side]);
  }

  dispose(): void {
    this.observer.disconnect();
    this.root.remove();
  }

  /** The pane that shows a side; of one that is hidden, the pane that is there instead. */
  at(side: Side): Pane {
    return this.list[this.sides.includes(side) ? side : this.sides[0]!];
  }

  /** The panes whose minimap is shown. */
  get mapped(): readonly Pane[] {
    return this.isUnified ? this.list : this.shown;
  }

  /** Shows both sides, one alone, or both as one tree in the first pane. */
  setSides(areTwo: boolean, only: Side | null, isUnified: boolean): void {
    this.isUnified = areTwo && isUnified;
    const one = areTwo && !isUnified ? only : Side.NPU;
    this.sides = one === null ? SIDES : [one];
    this.arrange();
  }

  setMinimap(isShown: boolean): void {
    this.hasMinimap = isShown;
    this.arrange();
  }

  paint(palette: Palette): void {
    this.root.style.background = palette.background;
    this.splitter.style.background = palette.gapHatch;
    this.splitter.style.borderColor = palette.background;
  }

  /** The part of the width that the first side has. */
  get split(): number {
    return this.part;
  }

  set split(part: number) {
    this.part = Math.max(0.1, Math.min(0.9, part));
    this.splitter.setAttribute('aria-valuenow', String(Math.round(this.part * 100)));
    this.arrange();
  }

  arrange(): void {
    const width = this.host.clientWidth;
    const height = this.host.clientHeight;
    const map = this.hasMinimap ? MINIMAP_WIDTH : 0;
    const [npu, bench] = this.list;
    for (const pane of this.list) {
      const isShown = this.sides.includes(pane.side);
      pane.surface.canvas.style.display = isShown ? 'block' : 'none';
      const isMapped = map > 0 && this.mapped.includes(pane);
      pane.minimap.canvas.style.display = isMapped ? 'block' : 'none';
    }
    const alone = this.shown.length === 1 ? this.shown[0]! : null;
    this.splitter.style.display = alone ? 'none' : 'block';
    if (alone && this.isUnified) {
      npu.x = map;
      npu.minimap.place(0, map, height);
      npu.surface.place(map, width - 2 * map, height);
      bench.minimap.place(width - map, map, height);
    } else if (alone) {
      alone.x = 0;
      alone.surface.place(0, width - map, height);
      alone.minimap.place(width - map, map, height);
    } else {
      const most = Math.max(NARROWEST, width - NARROWEST - SPLITTER_WIDTH);
      const first = Math.round(Math.max(NARROWEST, Math.min(most, width * this.part)));
      npu.x = map;
      npu.minimap.place(0, map, height);
      npu.surface.place(map, first - map, height);
      this.splitter.style.left = `${first}px`;
      bench.x = first + SPLITTER_WIDTH;
      bench.surface.place(bench.x, width - bench.x - map, height);
      bench.minimap.place(width - map, map, height);
    }
    this.resized();
  }

  private prepareSplitter(): void {
    const { splitter } = this;
    Object.assign(splitter.style, {
      ...{ position: 'absolute', top: '0', bottom: '0', width: `${SPLITTER_WIDTH}px` },
      ...{ boxSizing: 'border-box', borderStyle: 'solid', borderWidth: '0 2px' },
      ...{ cursor: 'col-resize', touchAction: 'none' },
    });
    splitter.tabIndex = 0;
    splitter.setAttribute('role', 'separator');
    splitter.setAttribute('aria-orientation', 'vertical');
    splitter.setAttribute('aria-valuemin', '10');
    splitter.setAttribute('aria-valuemax', '90');
    splitter.setAttribute('aria-valuenow', '50');
    splitter.addEventListener('pointerdown', (event) => {
      splitter.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    splitter.addEventListener('pointermove', (event) => {
      if (!splitter.hasPointerCapture(event.pointerId)) return;
      const { left, width } = this.host.getBoundingClientRect();
      this.split = (event.clientX - left) / width;
    });
    splitter.addEventListener('dblclick', () => (this.split = 0.5));
    splitter.addEventListener('keydown', (event) => {
      const move = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
      if (move === undefined) return;
      this.split += move;
      event.preventDefault();
      event.stopPropagation();
    });
  }
}
