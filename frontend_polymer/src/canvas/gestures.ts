import type { Side } from '../generated/graph_pb';
import type { Pane } from './panes';
import { ROW_HEIGHT } from './viewport';

/** What pointer gestures mean; positions are CSS pixels in the pane. */
export interface GestureTarget {
  focus(): void;
  clickAt(side: Side, x: number, y: number): void;
  doubleClickAt(side: Side, x: number, y: number): void;
  menuAt(side: Side, x: number, y: number, event: MouseEvent): void;
  hoverAt(side: Side, x: number, y: number, event: PointerEvent): void;
  leave(): void;
  pan(side: Side, dx: number, dy: number): void;
  zoom(side: Side, factor: number, x: number, y: number): void;
  /** The press turns into pulling a line from the node here; false when there is none to match. */
  grab(side: Side, x: number, y: number): boolean;
  pull(event: PointerEvent): void;
  drop(event: PointerEvent): void;
  /** A place on the minimap was pressed or dragged to. */
  travel(side: Side, y: number): void;
}

/** Movement below this is a click with an unsteady hand. */
const CLICK_SLACK = 4;
/** A press that stays this long in its place pulls a line, as a press with Alt does at once. */
const LONG_PRESS_MS = 500;

/** Translates pointer and wheel events of one pane and its minimap. */
export function watchPane(pane: Pane, target: GestureTarget): void {
  const { side } = pane;
  const { canvas } = pane.surface;
  const pressed = new Map<number, { x: number; y: number }>();
  let start = { x: 0, y: 0 };
  let isDragging = false;
  let isPulling = false;
  let longPress = 0;

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    target.focus();
    canvas.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, at(event));
    start = at(event);
    isDragging = pressed.size > 1;
    isPulling = event.altKey && !isDragging && target.grab(side, start.x, start.y);
    clearTimeout(longPress);
    longPress = window.setTimeout(() => {
      if (isDragging || isPulling || !target.grab(side, start.x, start.y)) return;
      isPulling = true;
      target.pull(event);
    }, LONG_PRESS_MS);
    event.preventDefault();
  });

  canvas.addEventListener('pointermove', (event) => {
    const before = pressed.get(event.pointerId);
    const now = at(event);
    if (!before) {
      target.hoverAt(side, now.x, now.y, event);
      return;
    }
    if (isPulling) {
      isDragging ||= isFar(now);
      target.pull(event);
    } else if (pressed.size === 2) pinch(pressed, event.pointerId, now);
    else if (isDragging || isFar(now)) {
      isDragging = true;
      canvas.style.cursor = 'grabbing';
      target.pan(side, before.x - now.x, before.y - now.y);
    } else return;
    pressed.set(event.pointerId, now);
  });

  const release = (event: PointerEvent) => {
    if (!pressed.delete(event.pointerId)) return;
    canvas.style.cursor = '';
    clearTimeout(longPress);
    if (isPulling) target.drop(event);
    isPulling = false;
    if (event.type === 'pointerup' && !isDragging) target.clickAt(side, start.x, start.y);
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => target.leave());
  canvas.addEventListener('dblclick', (event) => {
    target.doubleClickAt(side, at(event).x, at(event).y);
  });
  canvas.addEventListener('contextmenu', (event) => {
    target.menuAt(side, at(event).x, at(event).y, event);
  });
  canvas.addEventListener('wheel', (event) => wheel(event), { passive: false });

  function isFar(now: { x: number; y: number }): boolean {
    return Math.hypot(now.x - start.x, now.y - start.y) > CLICK_SLACK;
  }

  function wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : ROW_HEIGHT;
    const { x, y } = at(event);
    if (event.ctrlKey || event.metaKey) {
      // A notch of a wheel is about 100, a step of a pinch on a touchpad about 2.
      const delta = Math.max(-100, Math.min(100, event.deltaY * unit));
      const speed = Math.abs(delta) < 40 ? 0.01 : 0.002;
      target.zoom(side, Math.exp(-delta * speed), x, y);
    } else if (event.shiftKey && event.deltaX === 0) target.pan(side, event.deltaY * unit, 0);
    else target.pan(side, event.deltaX * unit, event.deltaY * unit);
  }

  function pinch(
    fingers: Map<number, { x: number; y: number }>,
    moved: number,
    now: { x: number; y: number },
  ): void {
    const still = [...fingers].find(([id]) => id !== moved)![1];
    const before = fingers.get(moved)!;
    const apart = (point: { x: number; y: number }) =>
      Math.max(1, Math.hypot(point.x - still.x, point.y - still.y));
    isDragging = true;
    const [x, y] = [(now.x + still.x) / 2, (now.y + still.y) / 2];
    target.zoom(side, apart(now) / apart(before), x, y);
    target.pan(side, (before.x - now.x) / 2, (before.y - now.y) / 2);
  }

  watchMinimap(pane, target);
}

function watchMinimap({ side, minimap }: Pane, target: GestureTarget): void {
  const { canvas } = minimap;
  canvas.style.cursor = 'pointer';
  const travel = (event: PointerEvent) => {
    if (canvas.hasPointerCapture(event.pointerId)) target.travel(side, at(event).y);
  };
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    target.focus();
    canvas.setPointerCapture(event.pointerId);
    travel(event);
    event.preventDefault();
  });
  canvas.addEventListener('pointermove', travel);
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      target.pan(side, 0, event.deltaY);
    },
    { passive: false },
  );
}

function at(event: MouseEvent): { x: number; y: number } {
  return { x: event.offsetX, y: event.offsetY };
}
