import { expect, it } from 'vitest';

import { firstError } from '../../../src/elements/parts/first-error';
import { Grade } from '../../../src/generated/graph_pb';
import { singleGraph, type Sketch } from '../../graphs/synthetic';

function nameOfFirst(sketch: Sketch): string {
  const graph = singleGraph(sketch);
  return graph.name(firstError(graph));
}

const leaf = (stem: string, grade: Grade): Sketch => ({ stem, grade });

it('finds the earliest operator in error, not the modules around it', () => {
  const model: Sketch = {
    stem: 'model',
    grade: Grade.SEVERE,
    children: [
      { stem: 'fine', grade: Grade.OK, children: [leaf('slight', Grade.SLIGHT)] },
      {
        stem: 'bad',
        grade: Grade.SEVERE,
        children: [leaf('before', Grade.OK), leaf('first', Grade.MODERATE)],
      },
      leaf('second', Grade.SEVERE),
    ],
  };
  expect(nameOfFirst(model)).toBe('first');
});

it('finds a module that is bad without a bad operator in it', () => {
  const model: Sketch = {
    stem: 'model',
    children: [
      { stem: 'module', grade: Grade.MODERATE, children: [leaf('inside', Grade.OK)] },
      leaf('later', Grade.MODERATE),
    ],
  };
  expect(nameOfFirst(model)).toBe('module');
});

it('takes the worst there is when nothing is moderate, and nothing when all is well', () => {
  const slight: Sketch = {
    stem: 'model',
    children: [leaf('a', Grade.OK), leaf('b', Grade.SLIGHT)],
  };
  expect(nameOfFirst(slight)).toBe('b');
  const fine: Sketch = {
    stem: 'model',
    children: [leaf('a', Grade.OK), leaf('b', Grade.UNMATCHED)],
  };
  expect(firstError(singleGraph(fine))).toBe(-1);
});
