import { expect, test } from 'vitest';

import { bySeverity, findIn, isEmptyFind, NO_FIND, operatorsOf } from '../../src/find';
import { Grade } from '../../src/generated/graph_pb';
import { forSeeds, randomPair } from './random';
import { graphPair } from './synthetic';

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
