import { expect, test } from 'vitest';
import { Measure } from '../../src/canvas/measure';
import { forSeeds } from '../graphs/random';

/** Half an em per character; bold is wider. */
const ruler = (text: string, weight: number) =>
  Array.from(text).length * (weight > 400 ? 0.6 : 0.5);

test('a text that fits stays as it is', () => {
  expect(new Measure(ruler).fit('q_proj', 10, 400, 30)).toBe('q_proj');
});

test('a longer one keeps both ends, the larger part at the end', () => {
  const text = 'model.layers.17.self_attn.q_proj';
  const short = new Measure(ruler).fit(text, 10, 400, 60);
  const [head, tail] = short.split('…');
  expect(text.startsWith(head!)).toBe(true);
  expect(text.endsWith(tail!)).toBe(true);
  expect(tail!.length).toBeGreaterThan(head!.length);
  expect(head!.length).toBeGreaterThan(0);
});

test('never exceeds the room, and uses it', () => {
  forSeeds(200, (random) => {
    const text = 'x'.repeat(1 + random.below(80));
    const [size, room] = [8 + random.below(8), random.below(400)];
    const measure = new Measure(ruler);
    const short = measure.fit(text, size, 600, room);
    expect(measure.width(short, size, 600)).toBeLessThanOrEqual(room);
    const isShortened = short !== text && short !== '';
    if (isShortened) expect(measure.width(short, size, 600)).toBeGreaterThan(room - size * 1.5);
    expect(measure.fit(text, size, 600, room)).toBe(short);
  });
});

test('never cuts a character in two', () => {
  const short = new Measure(ruler).fit('𝛼𝛽𝛾𝛿𝜀𝜁𝜂𝜃', 10, 400, 26);
  expect(short).toMatch(/^[\u{1D6FC}-\u{1D703}]*…[\u{1D6FC}-\u{1D703}]*$/u);
});

test('widths grow with the font and differ by weight', () => {
  const measure = new Measure(ruler);
  expect(measure.width('abcd', 10, 400)).toBe(20);
  expect(measure.width('abcd', 20, 400)).toBe(40);
  expect(measure.width('abcd', 10, 600)).toBe(24);
});
