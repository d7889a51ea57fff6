const ZOOM = 0.8;
const FEWEST = 4;

/**
 * The part of the steps after the wheel was turned over a map that begins at `left`; null for all
 * of them. With Ctrl it is zoomed about the pointer, sideways or with Shift pushed aside; undefined
 * where the wheel scrolls the rows.
 */
export function turned(
  event: WheelEvent,
  range: readonly [number, number] | null,
  last: number,
  left: number,
  width: number,
): readonly [number, number] | null | undefined {
  if (event.ctrlKey) {
    return zoomed(range ?? [0, last], last, (event.offsetX - left) / width, event.deltaY < 0);
  }
  const aside = event.deltaX || (event.shiftKey ? event.deltaY : 0);
  if (!aside || (!event.shiftKey && Math.abs(aside) <= Math.abs(event.deltaY))) return undefined;
  return range && slid(range, last, aside / width);
}

/** The part of the steps after a turn of the wheel at a share of the width; null for all of them. */
export function zoomed(
  [from, to]: readonly [number, number],
  last: number,
  share: number,
  isIn: boolean,
): readonly [number, number] | null {
  const factor = isIn ? ZOOM : 1 / ZOOM;
  const pivot = from + Math.max(0, share) * (to - from);
  const begin = Math.max(0, Math.round(pivot - (pivot - from) * factor));
  const end = Math.min(last, Math.max(begin + FEWEST, Math.round(pivot + (to - pivot) * factor)));
  return begin === 0 && end === last ? null : [begin, end];
}

/** The part of the steps after they were pushed aside by a share of the width. */
export function slid(
  [from, to]: readonly [number, number],
  last: number,
  share: number,
): readonly [number, number] {
  const wanted = Math.round(share * (to - from + 1)) || Math.sign(share);
  const by = Math.max(-from, Math.min(last - to, wanted));
  return [from + by, to + by];
}
