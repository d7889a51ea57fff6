import { describe, expect, test } from 'vitest';
import type { Graph } from '../../src/data/graph';
import { nextHit, previousHit, requiredText, Search, searchNames } from '../../src/data/search';
import { Direction, Grade, Kind, Overflow } from '../../src/generated/graph_pb';
import { llamaPair } from '../graphs/llama';
import { forSeeds, randomPair, type Random } from '../graphs/random';
import { graphPair, singleGraph } from '../graphs/synthetic';

function naive(graph: Graph, holds: (index: number) => boolean): number[] {
  return Array.from({ length: graph.count }, (_, index) => index).filter(holds);
}

/** A piece of a name, with the case changed here and there; sometimes of no name. */
function randomText(random: Random, graph: Graph): string {
  const name = graph.name(random.below(graph.count));
  const from = random.below(name.length);
  const piece = name.slice(from, from + 1 + random.below(12));
  const text = random.chance(0.1) ? `${piece}#` : piece;
  return Array.from(text, (c) => (random.chance(0.3) ? c.toUpperCase() : c)).join('');
}

test('a text is found wherever it lies in the full name', () => {
  forSeeds(200, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    const text = randomText(random, graph);
    const wanted = text.toLowerCase();
    const expected = naive(graph, (index) => graph.name(index).toLowerCase().includes(wanted));
    expect([...new Search(graph).find({ text })], text).toEqual(expected);
    expect([...searchNames(graph, text)]).toEqual(expected);
  });
});

test('a text is found wherever its end may be the number of a call or its direction', () => {
  const graph = singleGraph({
    stem: 'DefaultModel',
    children: [
      { stem: 'Module.a.net', direction: Direction.FORWARD, call: 0 },
      { stem: 'Torch.net.forward', kind: Kind.API, direction: Direction.FORWARD, call: 0 },
      { stem: 'Torch.net.backward', kind: Kind.API, direction: Direction.FORWARD, call: 0 },
    ],
  });
  expect([...new Search(graph).find({ text: 'net.forward.0' })]).toEqual([1, 2]);
});

test('each of several words is in the name or in that of the module around, one in the name', () => {
  forSeeds(200, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    const pick = () => graph.name(random.below(graph.count)).split('.').slice(0, 2).join('.');
    const words = [pick(), randomText(random, graph), pick()]
      .slice(0, 2 + random.below(2))
      .flatMap((word) => word.split(/\s+/))
      .filter((word) => word !== '');
    if (words.length < 2) return;
    const patterns = words.map((word) => {
      const literal = word.replace(/[.*+?^${}()|[\]\\#]/g, '\\$&');
      return new RegExp(`${literal}${/\d$/.test(word) ? '(?!\\d)' : ''}`, 'i');
    });
    const around = (index: number) => {
      const modules = graph.ancestors(index).filter((above) => graph.kindOf(above) === Kind.MODULE);
      return modules.length === 0 ? '' : graph.stems[graph.stem[modules.at(-1)!]!]!;
    };
    const expected = naive(graph, (index) => {
      const own = patterns.map((pattern) => pattern.test(graph.name(index)));
      const all = own.every((isOwn, at) => isOwn || patterns[at]!.test(around(index)));
      return all && own.some((isOwn) => isOwn);
    });
    expect([...searchNames(graph, ` ${words.join('  ')}`.trim())], words.join(' ')).toEqual(
      expected,
    );
  });
});

test('a number at the end of a word is whole', () => {
  const [graph] = graphPair(...llamaPair({ layers: 12 }));
  const found = Array.from(searchNames(graph, 'linear layers.1'), (index) =>
    graph
      .ancestors(index)
      .map((above) => graph.name(above))
      .join(' '),
  );
  expect(found.length).toBeGreaterThan(0);
  for (const path of found) expect(path).toMatch(/layers\.1\./);
});

test('a pattern finds what it matches in the full name', () => {
  const patterns = [
    ...['linear.*forward', '^tensor', '0$', 'a.b', 'add|cat', 'ad+\\.', '[ab]\\.lin', '(b|c)at'],
    ...[
      'backward\\.\\d$',
      'x?y*linear',
      'LINEAR\\.1',
      'Module\\.a\\..*\\.(for|back)ward\\.[0-9]$',
      '.',
    ],
  ];
  forSeeds(20, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    for (const text of patterns) {
      const pattern = new RegExp(text, 'i');
      const expected = naive(graph, (index) => pattern.test(graph.name(index)));
      expect([...new Search(graph).find({ text, isPattern: true })], text).toEqual(expected);
    }
  });
});

test('an invalid pattern is the caller’s to report', () => {
  forSeeds(1, (random) => {
    const [graph] = graphPair(...randomPair(random, 10));
    expect(() => new Search(graph).find({ text: '(', isPattern: true })).toThrow(SyntaxError);
  });
});

test('the text required by a pattern is in everything the pattern matches', () => {
  const samples = ['abbc.d', 'ac.d', 'xabc', 'foo.bar', 'a', '', 'b]c', 'aab.dd.bar'];
  const atoms = ['a', 'b', 'c', '.', 'bar', '[ab]', '[^a]', 'd+', 'b*', 'x?', 'b+?', '^', '$', ']'];
  forSeeds(2000, (random) => {
    const source = Array.from({ length: 1 + random.below(5) }, () => random.pick(atoms)).join('');
    let pattern: RegExp;
    try {
      pattern = new RegExp(source, 'i');
    } catch {
      return;
    }
    const required = requiredText(source);
    for (const sample of samples.filter((name) => pattern.test(name))) {
      expect(sample.includes(required), `${source} needs ${required} in ${sample}`).toBe(true);
    }
  });
});

test('is the longest certain run', () => {
  expect(requiredText('q_proj.*backward')).toBe('backward');
  expect(requiredText('linear|conv')).toBe('');
});

test('filters hold all at once', () => {
  forSeeds(50, (random) => {
    const [graph] = graphPair(...randomPair(random, 80));
    const grades = new Set([random.pick([Grade.OK, Grade.SEVERE]), Grade.UNMATCHED]);
    const overflows = new Set([Overflow.NONE, Overflow.HIGH]);
    const query = { text: 'a', grades, overflows, microStep: random.below(3), leavesOnly: true };
    const expected = naive(
      graph,
      (index) =>
        graph.name(index).toLowerCase().includes('a') &&
        grades.has(graph.gradeOf(index)) &&
        overflows.has(graph.overflowOf(index)) &&
        graph.microStep[index] === query.microStep &&
        graph.end[index] === index + 1,
    );
    expect([...new Search(graph).find(query)]).toEqual(expected);
  });
});

test('reasons select what could not be matched because of them', () => {
  const [graph] = graphPair(
    {
      ...{ stem: 'DefaultModel', key: 'root' },
      children: [
        { stem: 'a', reason: 'shape' },
        { stem: 'b', reason: 'name' },
      ],
    },
    { stem: 'DefaultModel', key: 'root' },
  );
  const shape = graph.unmatchedReasons.indexOf('shape');
  expect([...new Search(graph).find({ text: '', reasons: new Set([shape]) })]).toEqual([1]);
});

describe('stepping through hits', () => {
  const hits = Int32Array.of(3, 7, 20);

  test.each([
    [-1, 0, 2],
    [3, 1, 2],
    [5, 1, 0],
    [7, 2, 0],
    [20, 0, 1],
    [99, 0, 2],
  ])('from node %i', (current, next, previous) => {
    expect(nextHit(hits, current)).toBe(next);
    expect(previousHit(hits, current)).toBe(previous);
  });
});
