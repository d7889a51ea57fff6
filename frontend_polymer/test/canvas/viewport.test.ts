import { describe, expect, test } from 'vitest';
import { contentWidth, geometryOf, scrollBeside } from '../../src/canvas/geometry';
import {
  blend,
  centreOn,
  clamp,
  fit,
  MARGIN,
  panBy,
  ROW_HEIGHT,
  scrollInto,
  TALLEST_ROW,
  unitAt,
  yOf,
  zoomAt,
  type Extent,
  type View,
} from '../../src/canvas/viewport';
import { UNITS_PER_ROW } from '../../src/layout/rows';
import { forSeeds, type Random } from '../graphs/random';

function randomExtent(random: Random): Extent {
  const width = 200 + random.below(2000);
  const deepest = random.below(60);
  return {
    ...{
      width,
      height: 100 + random.below(1400),
      units: UNITS_PER_ROW * (1 + random.below(100_000)),
    },
    contentWidth: (rowHeight) => contentWidth(rowHeight, width, deepest),
  };
}

function randomView(random: Random, extent: Extent): View {
  const rowHeight = Math.exp(random.next() * 8 - 4);
  const top = (random.next() * 1.4 - 0.2) * extent.units;
  return clamp({ rowHeight, top, left: random.next() * 500 }, extent);
}

const everywhere = (property: (random: Random, extent: Extent, view: View) => void) =>
  forSeeds(300, (random) => {
    const extent = randomExtent(random);
    property(random, extent, randomView(random, extent));
  });

test('heights of the pane and of the layout convert both ways', () => {
  everywhere((random, extent, view) => {
    const y = random.next() * extent.height;
    expect(yOf(view, unitAt(view, y))).toBeCloseTo(y, 3);
  });
});

describe('a clamped view', () => {
  test('reaches exactly the margin at both ends', () => {
    everywhere((_, extent, view) => {
      const scale = view.rowHeight / UNITS_PER_ROW;
      if (extent.units * scale <= extent.height - 2 * MARGIN) return;
      expect(yOf(panBy(view, extent, 0, -1e9), 0)).toBeCloseTo(MARGIN, 3);
      const end = panBy(view, extent, 0, 1e9);
      expect(yOf(end, extent.units)).toBeCloseTo(extent.height - MARGIN, 3);
    });
  });

  test('of everything leaves the margin above and below', () => {
    const extent = { width: 800, height: 416, units: 100 * UNITS_PER_ROW, contentWidth: () => 800 };
    expect(fit(extent)).toEqual({ rowHeight: 4, top: (-MARGIN * UNITS_PER_ROW) / 4, left: 0 });
  });

  test('stays as it is when clamped again', () => {
    everywhere((_, extent, view) => expect(clamp(view, extent)).toEqual(view));
  });

  test('shows rows between a glance at all and the tallest', () => {
    everywhere((_, extent, view) => {
      expect(view.rowHeight).toBeLessThanOrEqual(TALLEST_ROW);
      const fitting = (extent.height - 2 * MARGIN) / (extent.units / UNITS_PER_ROW);
      expect(view.rowHeight).toBeGreaterThanOrEqual(Math.min(ROW_HEIGHT / 4, fitting) - 1e-9);
    });
  });

  test('never scrolls past the ends by more than the margin', () => {
    everywhere((_, extent, view) => {
      expect(yOf(view, 0)).toBeLessThanOrEqual(MARGIN + 1e-6);
      const isTaller = extent.units * (view.rowHeight / UNITS_PER_ROW) > extent.height - 2 * MARGIN;
      if (isTaller)
        expect(yOf(view, extent.units)).toBeGreaterThanOrEqual(extent.height - MARGIN - 1e-3);
      else expect(yOf(view, 0)).toBeCloseTo(MARGIN, 6);
      expect(view.left).toBeGreaterThanOrEqual(0);
      expect(view.left).toBeLessThanOrEqual(
        extent.contentWidth(view.rowHeight) - extent.width + 1e-9,
      );
    });
  });
});

test('zooming keeps the point under the pointer unless an end of the content forbids', () => {
  let kept = 0;
  let tried = 0;
  everywhere((random, extent, view) => {
    tried++;
    const y = random.next() * extent.height;
    const unit = unitAt(view, y);
    const zoomed = zoomAt(view, extent, 0.5 + random.next() * 1.5, random.next() * extent.width, y);
    const free = unit - y / (zoomed.rowHeight / UNITS_PER_ROW);
    const isFree = clamp({ ...zoomed, top: free }, extent).top === free;
    if (!isFree) return;
    kept++;
    expect(yOf(zoomed, unit)).toBeCloseTo(y, 3);
  });
  expect(kept).toBeGreaterThan(tried / 3);
});

test('panning moves by pixels at any zoom', () => {
  everywhere((random, extent, view) => {
    const dy = random.next() * 60 - 30;
    const moved = panBy(view, extent, 0, dy);
    const free = view.top + dy / (view.rowHeight / UNITS_PER_ROW);
    if (clamp({ ...view, top: free }, extent).top !== free) return;
    expect(yOf(view, 0) - yOf(moved, 0)).toBeCloseTo(dy, 4);
  });
});

test('fitting shows the first and the last row', () => {
  everywhere((_, extent) => {
    const view = fit(extent);
    expect(yOf(view, 0)).toBeGreaterThanOrEqual(0);
    expect(yOf(view, extent.units)).toBeLessThanOrEqual(extent.height);
    expect(view.rowHeight).toBeLessThanOrEqual(ROW_HEIGHT);
  });
});

test('centring puts a height in the middle, or as near as the ends allow', () => {
  everywhere((random, extent, view) => {
    const unit = random.next() * extent.units;
    const y = yOf(centreOn(view, extent, unit), unit);
    expect(y).toBeGreaterThanOrEqual(-1e-3);
    expect(y).toBeLessThanOrEqual(extent.height + 1e-3);
  });
});

test('scrolling to a row shows it whole and does not move when it is shown', () => {
  everywhere((random, extent, view) => {
    if (extent.height < 3 * view.rowHeight) return;
    const unit = UNITS_PER_ROW * random.below(extent.units / UNITS_PER_ROW);
    const there = scrollInto(view, extent, unit);
    expect(yOf(there, unit)).toBeGreaterThanOrEqual(-1e-3);
    expect(yOf(there, unit + UNITS_PER_ROW)).toBeLessThanOrEqual(extent.height + 1e-3);
    expect(scrollInto(there, extent, unit).top).toBeCloseTo(there.top, 6);
  });
});

test('a blend begins and ends where it should and never turns back', () => {
  const [from, to] = [
    { rowHeight: 24, top: 100, left: 0 },
    { rowHeight: 12, top: 900, left: 40 },
  ];
  expect(blend(from, to, 0)).toEqual(from);
  expect(blend(from, to, 1)).toEqual(to);
  const tops = Array.from({ length: 50 }, (_, step) => blend(from, to, step / 49).top);
  expect(tops).toEqual([...tops].sort((a, b) => a - b));
});

test('the beginning of a row at any depth is scrolled into the pane, and no farther than needed', () => {
  everywhere((random, extent, view) => {
    const deepest = 1 + random.below(300);
    const wide = {
      ...extent,
      contentWidth: (height: number) => contentWidth(height, extent.width, deepest),
    };
    const depth = random.below(deepest + 1);
    const before = clamp(view, wide);
    const after = scrollBeside(before, wide, depth);
    const { indent, padding } = geometryOf(after.rowHeight);
    const start = padding + depth * indent - after.left;
    expect(start).toBeGreaterThanOrEqual(0);
    expect(start).toBeLessThan(extent.width);
    expect(scrollBeside(after, wide, depth)).toEqual(after);
    expect([after.top, after.rowHeight]).toEqual([before.top, before.rowHeight]);
    if (wide.contentWidth(before.rowHeight) <= extent.width) expect(after.left).toBe(0);
  });
});
