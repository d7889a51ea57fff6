import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { paletteOf, type GradeColour, type Theme } from '../../src/canvas/palette';
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

/** Grades and colours as the documentation gives them to users. */
function documented(): GradeColour[] {
  const text = readFileSync('../docs/metrics.md', 'utf8');
  return [...text.matchAll(/^\| (\w+) \|.*`(#[0-9A-F]{6})` \|$/gm)].map((row) => ({
    grade: Grade[row[1]!.toUpperCase() as keyof typeof Grade],
    colour: row[2]!,
  }));
}
const COLOURS = documented();
const RISING = [OK, SLIGHT, MODERATE, SERIOUS, SEVERE];

describe.each<Theme>(['light', 'dark'])('%s', (theme) => {
  const palette = paletteOf(theme, COLOURS);

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

test('the documentation gives every grade a colour', () => {
  expect(COLOURS.map(({ grade }) => grade).sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test('light fills are the colours of the file', () => {
  const { tones } = paletteOf('light', COLOURS);
  for (const { grade, colour } of COLOURS) expect(tones[grade]!.fill).toBe(colour.toLowerCase());
  const own = paletteOf('light', [{ grade: SEVERE, colour: '#00FF00' }]);
  expect(own.tones[SEVERE]!.fill).toBe('#00ff00');
});

test('a grade without a colour that can be read looks ungraded', () => {
  for (const colour of ['', 'red', '#12345', '#1234567', '#ff0000; x', 'url(x)']) {
    const { tones } = paletteOf('light', [{ grade: SEVERE, colour }]);
    expect(tones[SEVERE]).toEqual({ ...tones[Grade.UNGRADED]!, ticks: 4 });
  }
});

test.each<Theme>(['light', 'dark'])('%s: any colour of a file can be read', (theme) => {
  const levels = ['00', '33', '66', '99', 'CC', 'FF'];
  for (const red of levels) {
    for (const green of levels) {
      for (const blue of levels) {
        const colour = `#${red}${green}${blue}`;
        const { fill, text, quiet } = paletteOf(theme, [{ grade: OK, colour }]).tones[OK]!;
        expect(contrast(text, fill), `${text} on ${fill}`).toBeGreaterThanOrEqual(4.5);
        expect(contrast(quiet, fill), `${quiet} on ${fill}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  }
});

test.each<Theme>(['light', 'dark'])('%s: a hue stays the same hue', (theme) => {
  // Dominant channel, whatever the theme does to the lightness.
  for (const [colour, channel] of [
    ['#FF0000', 0],
    ['#00C000', 1],
    ['#0040FF', 2],
  ] as const) {
    const { fill } = paletteOf(theme, [{ grade: OK, colour }]).tones[OK]!;
    const channels = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
    expect(channels.indexOf(Math.max(...channels)), fill).toBe(channel);
  }
});
