import { expect, test } from 'vitest';

import { moduleAround, modulePath, operatorsOf } from '../../src/session/conditions';
import { asTyped, bySeverity, findIn, isEmptyFind, NO_FIND } from '../../src/session/find';
import { Grade } from '../../src/generated/graph_pb';
import { llamaPair } from '../graphs/llama';
import { forSeeds, randomPair } from '../graphs/random';
import { graphPair } from '../graphs/synthetic';

test('nothing is asked for by where and in which order alone', () => {
  expect(isEmptyFind({ ...NO_FIND, scope: 'file', order: 'severity', isPattern: true })).toBe(true);
  expect(isEmptyFind({ ...NO_FIND, grades: [Grade.OK] })).toBe(false);
  expect(isEmptyFind({ ...NO_FIND, operator: 'add' })).toBe(false);
});

test('every node is found under one operator, which is the last part of its stem', () => {
  forSeeds(50, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    const found = operatorsOf(graph).flatMap((operator) => {
      const hits = findIn(graph, { ...NO_FIND, operator: operator.toUpperCase() }, -1);
      for (const index of hits) {
        expect(graph.stems[graph.stem[index]!]!.toLowerCase().split('.').at(-1)).toBe(
          operator.toLowerCase(),
        );
      }
      return [...hits];
    });
    const named = Array.from({ length: graph.count }, (_, index) => index).filter(
      (index) => !graph.stems[graph.stem[index]!]!.endsWith('.'),
    );
    expect([...new Set(found)].sort((one, other) => one - other)).toEqual(named);
  });
});

test('severity goes from the worst grade to unmatched, and keeps every hit', () => {
  forSeeds(50, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    const hits = findIn(graph, { ...NO_FIND, text: '.' }, -1);
    const sorted = [...bySeverity(graph, hits)];
    const grades = sorted.map((index) => graph.gradeOf(index));
    const expected = grades.toSorted(
      (one, other) => (other % Grade.UNMATCHED) - (one % Grade.UNMATCHED),
    );
    expect(grades.filter((grade) => grade !== Grade.UNMATCHED && grade !== Grade.UNGRADED)).toEqual(
      expected.filter((grade) => grade !== Grade.UNMATCHED && grade !== Grade.UNGRADED),
    );
    expect(sorted.toSorted((one, other) => one - other)).toEqual([...hits]);
    const firstUnmatched = grades.indexOf(Grade.UNMATCHED);
    if (firstUnmatched >= 0) {
      expect(new Set(grades.slice(firstUnmatched))).toEqual(new Set([Grade.UNMATCHED]));
    }
  });
});

test('an unknown reason finds nothing, a known one its nodes', () => {
  forSeeds(50, (random) => {
    const [graph] = graphPair(...randomPair(random, 60));
    expect(findIn(graph, { ...NO_FIND, reasons: ['no such reason'] }, -1)).toHaveLength(0);
    for (const [place, reason] of graph.unmatchedReasons.entries()) {
      const hits = findIn(graph, { ...NO_FIND, reasons: [reason] }, -1);
      expect(hits.length).toBe(graph.unmatchedReason.filter((at) => at === place).length);
    }
  });
});

test('below a module are its own node and everything in it, whatever part of its name is given', () => {
  const [graph] = graphPair(...llamaPair({ layers: 2 }));
  const paths = new Set<string>();
  for (let index = 0; index < graph.count; index++) paths.add(moduleAround(graph, index));
  paths.delete('');
  expect(paths.size).toBeGreaterThan(10);
  for (const path of paths) {
    const found = new Set(findIn(graph, { ...NO_FIND, below: path }, -1));
    for (let index = 0; index < graph.count; index++) {
      const around = [...graph.ancestors(index), index].map((node) => graph.name(node));
      const isIn = around.some((name) =>
        new RegExp(`^Module\\.${path}\\.[^.]+\\.\\w+\\.\\d+$`).test(name),
      );
      expect(found.has(index), `${path}: ${graph.name(index)}`).toBe(isIn);
    }
  }
  const [path] = paths;
  const full = graph.stems.find((stem) => modulePath(stem) === path && stem.startsWith('Module.'))!;
  const one = findIn(graph, { ...NO_FIND, below: full.toUpperCase() }, -1);
  expect([...one]).toEqual([...findIn(graph, { ...NO_FIND, below: path! }, -1)]);
});

test('a direction finds the calls of that direction', () => {
  const [graph] = graphPair(...llamaPair({ layers: 2 }));
  for (const direction of ['forward', 'backward']) {
    const found = findIn(graph, { ...NO_FIND, direction }, -1);
    expect(found.length).toBeGreaterThan(10);
    for (const index of found) expect(graph.name(index)).toContain(`.${direction}`);
  }
});

test.each([
  ['modeling_llama.py:193', 'modeling_llama.py:193', ''],
  ['softmax models/llama.py:7', 'models/llama.py:7', 'softmax'],
  ['train.py', 'train.py', ''],
  ['layers.1 softmax', '', 'layers.1 softmax'],
])('%s asks for code %s and names %s', (typed, code, text) => {
  expect(asTyped({ ...NO_FIND, text: typed })).toMatchObject({ code, text });
  const asked = { ...NO_FIND, text: typed, isPattern: true };
  expect(asTyped(asked)).toBe(asked);
});
