import type { Side } from '../generated/graph_pb';
import { UNITS_PER_ROW } from '../layout/rows';
import { otherSide } from '../layout/sides';
import { scrollBeside } from './geometry';
import {
  blend,
  centreOn,
  clamp,
  fit,
  panBy,
  READING_ROW,
  ROW_HEIGHT,
  scrollInto,
  yOf,
  zoomAt,
  type Extent,
  type Spot,
  type View,
} from './viewport';

const ANIMATION_MS = 140;
/** Farther jumps than this many panes are not animated: nothing could be followed anyway. */
const FARTHEST_GLIDE = 3;

let calm: MediaQueryList | undefined;

/** What each pane looks at. Both sides move in step unless told otherwise. */
export class Camera {
  private readonly views: [View, View] = [startingView(), startingView()];
  private animation = 0;
  private inStep = true;

  constructor(
    /** The size of a pane and of what it shows. */
    readonly extent: (side: Side) => Extent,
    private readonly moved: (side: Side) => void,
  ) {}

  view(side: Side): View {
    return this.views[side];
  }

  get isSynced(): boolean {
    return this.inStep;
  }

  /** Puts the other side in step with `leader`, or lets both go their own way. */
  setSync(inStep: boolean, leader: Side): void {
    if (inStep === this.inStep) return;
    this.inStep = inStep;
    if (inStep) this.update(leader);
  }

  set(side: Side, view: View): void {
    this.stop();
    this.move(side, view);
  }

  /** Keeps the view on the content after either has changed its size. */
  update(side: Side): void {
    this.set(side, this.views[side]);
  }

  reset(side: Side): void {
    this.set(side, { ...startingView(), top: -Infinity });
  }

  pan(side: Side, dx: number, dy: number): void {
    this.set(side, panBy(this.views[side], this.extent(side), dx, dy));
  }

  /** Zooms at a point of the pane, by default at its middle. */
  zoom(side: Side, factor: number, x?: number, y?: number): void {
    const extent = this.extent(side);
    const [px, py] = [x ?? extent.width / 2, y ?? extent.height / 2];
    this.set(side, zoomAt(this.views[side], extent, factor, px, py));
  }

  fit(side: Side): void {
    this.glide(side, fit(this.extent(side)));
  }

  /** Scrolls until a row is in view. */
  reach(side: Side, { unit, depth }: Spot): void {
    const extent = this.extent(side);
    this.glide(side, scrollBeside(scrollInto(this.views[side], extent, unit), extent, depth));
  }

  /** Puts a row in the middle, near enough to read it. */
  centre(side: Side, spot: Spot): void {
    this.glide(side, this.centred(side, spot));
  }

  /** The same at once: for views that open, which nobody watched before. */
  open(side: Side, spot: Spot): void {
    this.set(side, this.centred(side, spot));
  }

  private centred(side: Side, { unit, depth }: Spot): View {
    const view = this.views[side];
    const extent = this.extent(side);
    const near = { ...view, rowHeight: Math.max(view.rowHeight, READING_ROW) };
    return scrollBeside(centreOn(near, extent, unit + UNITS_PER_ROW / 2), extent, depth);
  }

  /** Puts a height in the middle at once, without zooming. */
  travel(side: Side, unit: number): void {
    this.set(side, centreOn(this.views[side], this.extent(side), unit));
  }

  stop(): void {
    cancelAnimationFrame(this.animation);
  }

  /** Moves there in a moment, at once for those who asked for less motion. */
  private glide(side: Side, target: View): void {
    this.stop();
    const from = this.views[side];
    const isFar = Math.abs(yOf(from, target.top)) > FARTHEST_GLIDE * this.extent(side).height;
    if (isFar || (calm ??= matchMedia('(prefers-reduced-motion: reduce)')).matches) {
      this.move(side, target);
      return;
    }
    const start = performance.now();
    const step = (now: number) => {
      const progress = Math.max(0, Math.min(1, (now - start) / ANIMATION_MS));
      this.move(side, blend(from, target, progress));
      if (progress < 1) this.animation = requestAnimationFrame(step);
    };
    this.animation = requestAnimationFrame(step);
  }

  private move(side: Side, view: View): void {
    this.views[side] = clamp(view, this.extent(side));
    const other = otherSide(side);
    if (this.inStep) this.views[other] = clamp(this.views[side], this.extent(other));
    this.moved(side);
  }
}

function startingView(): View {
  return { rowHeight: ROW_HEIGHT, top: 0, left: 0 };
}
