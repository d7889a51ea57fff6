import { describe, expect, test } from 'vitest';
import { drawPane } from '../../src/canvas/draw';
import { contentWidth, geometryOf, Placer } from '../../src/canvas/geometry';
import { Measure } from '../../src/canvas/measure';
import { colouringOf } from '../../src/data/colouring';
import { paletteOf } from '../../src/canvas/palette';
import { Pyramid } from '../../src/canvas/pyramid';
import { SvgSheet } from '../../src/canvas/svg';
import { Tones } from '../../src/canvas/tone';
import { Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { llamaPair } from '../graphs/llama';
import { forSeeds, randomPair } from '../graphs/random';
import { graphPair, type Sketch } from '../graphs/synthetic';

const WIDTH = 900;
const HEIGHT = 700;

function draw(hierarchy: Hierarchy, rowHeight: number, theme: 'light' | 'dark', top = -1): string {
  const side = Side.NPU;
  const tree = hierarchy.trees[side];
  const tones = new Tones(
    tree.graph,
    'precision',
    colouringOf(tree.graph, 'precision', { measures: null, bands: [] }, false),
  );
  const open = hierarchy.expansion.open[side];
  const view = { rowHeight, top, left: 0 };
  const width = contentWidth(rowHeight, WIDTH, tree.deepest);
  const surface = new SvgSheet(WIDTH, HEIGHT);
  drawPane({
    ...{ surface, view, side, tree, tones, open, graph: tree.graph, rows: hierarchy.rows },
    placer: new Placer(hierarchy.rows, view, geometryOf(rowHeight), width, 1),
    palette: paletteOf(theme, []),
    pyramid: () => new Pyramid(hierarchy.rows, side, tree, open, tones),
    measure: new Measure((text) => text.length * 0.5),
    ...{ selected: 1, counterpart: -1, lacking: -1, hover: -1, picks: false },
    hits: Int32Array.of(2),
    suspects: new Int32Array(),
    trail: new Int32Array(),
    bands: [],
    unified: null,
    facts: {
      values: [[], []],
      tensorOf: [[], []],
      tensors: [],
      words: { only: ['', ''], elsewhere: '' },
    },
    difference: () => '',
    deepest: tree.deepest,
  });
  return surface.text();
}

/** Fails unless every element is closed, every attribute quoted and every reference known. */
function texts(svg: string): string[] {
  const open: string[] = [];
  const found: string[] = [];
  const attribute = /^\s([a-zA-Z0-9:-]+)="([^"<>]*)"/;
  let rest = svg;
  while (rest !== '') {
    const end = /^<\/([a-zA-Z]+)>/.exec(rest);
    const start = /^<([a-zA-Z]+)/.exec(rest);
    const content = /^[^<]+/.exec(rest);
    const read = end ?? start ?? content;
    if (!read) throw new Error(`not XML: ${rest.slice(0, 80)}`);
    rest = rest.slice(read[0].length);
    if (content && read === content) {
      if (open.at(-1) === 'text') found.push(content[0]);
      else expect(content[0].trim()).toBe('');
      continue;
    }
    if (end) {
      expect(open.pop()).toBe(end[1]);
      continue;
    }
    const seen = new Set<string>();
    for (let next = attribute.exec(rest); next; next = attribute.exec(rest)) {
      expect(seen).not.toContain(next[1]);
      seen.add(next[1]!);
      expect(next[2]).not.toMatch(/NaN|undefined|Infinity|&(?!(amp|lt|gt|quot);)/);
      const reference = /^url\(#(.*)\)$/.exec(next[2]!);
      if (reference) expect(svg.split(`id="${reference[1]}"`).length).toBe(2);
      rest = rest.slice(next[0].length);
    }
    const isEmpty = rest.startsWith('/>');
    expect(isEmpty || rest.startsWith('>')).toBe(true);
    rest = rest.slice(isEmpty ? 2 : 1);
    if (!isEmpty) open.push(start![1]!);
  }
  expect(open).toEqual([]);
  return found;
}

describe.each(['light', 'dark'] as const)('an SVG file, %s,', (theme) => {
  test('is well formed at any zoom, whatever is unfolded', () => {
    forSeeds(20, (random) => {
      const hierarchy = new Hierarchy(graphPair(...randomPair(random, 80)));
      hierarchy.expansion.expandAll();
      hierarchy.relayout();
      const rowHeight = random.pick([40, 24, 16, 13, 8, 3, 1]);
      texts(draw(hierarchy, rowHeight, theme, random.below(40)));
    });
  });

  test('holds names, classes, layers and errors as text', () => {
    const hierarchy = new Hierarchy(graphPair(...llamaPair({ layers: 12 })));
    hierarchy.expansion.toLevel(2);
    hierarchy.relayout();
    const found = texts(draw(hierarchy, 24, theme));
    for (const text of ['embed_tokens', 'layers.0 … 11', '· LlamaDecoderLayer', '×12', 'lm_head']) {
      expect(found).toContain(text);
    }
    expect(found.filter((text) => /^0\.\d{3}$/.test(text)).length).toBeGreaterThan(2);
  });
});

test('a name cannot break out of its text', () => {
  const evil = 'a"><script>alert(1)</script>&\u0000\ud800';
  const model: Sketch = { stem: 'DefaultModel', children: [{ stem: evil }] };
  const hierarchy = new Hierarchy(graphPair(model, model));
  const found = texts(draw(hierarchy, 24, 'light'));
  expect(found).toContain('a&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;\ufffd');
});
