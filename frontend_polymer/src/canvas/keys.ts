/** What keys do while the hierarchy has the focus. */
export interface KeyTarget {
  /** To the previous or next row of the active side. */
  step(rows: number): void;
  page(direction: 1 | -1): void;
  first(): void;
  last(): void;
  /** Unfolds, or goes to the first child. */
  inward(): void;
  /** Folds, or goes to the parent. */
  outward(): void;
  toggleSelected(): void;
  /** To the counterpart on the other side. */
  cross(): void;
  zoomBy(factor: number): void;
  resetZoom(): void;
  fit(): void;
  panBy(dx: number, dy: number): void;
}

const ZOOM_STEP = 1.25;
const PAN_STEP = 48;

/** Whether the key meant something here. */
export function pressKey(event: KeyboardEvent, target: KeyTarget): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action: (() => void) | undefined = {
    ArrowUp: () => target.step(-1),
    ArrowDown: () => target.step(1),
    ArrowLeft: () => target.outward(),
    ArrowRight: () => target.inward(),
    PageUp: () => target.page(-1),
    PageDown: () => target.page(1),
    Home: () => target.first(),
    End: () => target.last(),
    Enter: () => target.toggleSelected(),
    ' ': () => target.toggleSelected(),
    x: () => target.cross(),
    w: () => target.zoomBy(ZOOM_STEP),
    '+': () => target.zoomBy(ZOOM_STEP),
    '=': () => target.zoomBy(ZOOM_STEP),
    s: () => target.zoomBy(1 / ZOOM_STEP),
    '-': () => target.zoomBy(1 / ZOOM_STEP),
    '0': () => target.resetZoom(),
    f: () => target.fit(),
    a: () => target.panBy(-PAN_STEP, 0),
    d: () => target.panBy(PAN_STEP, 0),
  }[key];
  if (!action) return false;
  action();
  return true;
}
