import { describe, expect, test } from 'vitest';
import { paletteOf, type Theme } from '../../src/canvas/palette';
import { TONES } from '../../src/canvas/tone';
import { Grade } from '../../src/generated/graph_pb';

/** Relative luminance and contrast as WCAG 2 defines them. */
function luminance(colour: string): number {
  const channels = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = channels.map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

const { OK, SLIGHT, MODERATE, SERIOUS, SEVERE, UNMATCHED } = Grade;
const RISING = [OK, SLIGHT, MODERATE, SERIOUS, SEVERE];

describe.each<Theme>(['light', 'dark'])('%s', (theme) => {
  const palette = paletteOf(theme);

  test('has every colour class', () => expect(palette.tones).toHaveLength(TONES));

  test('text can be read on every fill', () => {
    for (const { fill, text, quiet } of palette.tones) {
      expect(contrast(text, fill), `${text} on ${fill}`).toBeGreaterThanOrEqual(4.5);
      expect(contrast(quiet, fill), `${quiet} on ${fill}`).toBeGreaterThanOrEqual(4.5);
    }
  });

  test('outlines of what is pointed out stand out from the background', () => {
    for (const colour of [palette.selection, palette.hit]) {
      expect(contrast(colour, palette.background)).toBeGreaterThanOrEqual(3);
    }
  });

  test('severity moves in one direction of brightness, for those who see no colours', () => {
    const levels = RISING.map((grade) => luminance(palette.tones[grade]!.fill));
    const sorted = [...levels].sort((a, b) => (theme === 'light' ? b - a : a - b));
    expect(levels).toEqual(sorted);
    expect(new Set(levels).size).toBe(levels.length);
  });

  test('grades differ without any colour', () => {
    const marks = [...RISING, UNMATCHED].map((grade) => {
      const { ticks, dashed } = palette.tones[grade]!;
      return `${ticks} ${dashed}`;
    });
    expect(new Set(marks).size).toBe(marks.length);
  });
});

test('light fills are the colours users know', () => {
  const { tones } = paletteOf('light');
  expect([...RISING, UNMATCHED].map((grade) => tones[grade]!.fill)).toEqual([
    ...['#fffcf3', '#ffedbe', '#ffdc7f', '#ffc62e', '#ff704d', '#c7c7c7'],
  ]);
});
