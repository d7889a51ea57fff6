import { expect, it } from 'vitest';

import { firstOfTheWorst } from '../../src/elements/first-error';
import { Grade } from '../../src/generated/graph_pb';
import { singleGraph, type Sketch } from '../core/synthetic';

function nameOfFirst(sketch: Sketch): string {
  const graph = singleGraph(sketch);
  return graph.name(firstOfTheWorst(graph));
}

const leaf = (stem: string, grade: Grade): Sketch => ({ stem, grade });

it('finds the operator in which the worst grade first appears, not the modules around it', () => {
  const model: Sketch = {
    stem: 'model',
    grade: Grade.SEVERE,
    children: [
      { stem: 'fine', grade: Grade.OK, children: [leaf('serious', Grade.SERIOUS)] },
      {
        stem: 'bad',
        grade: Grade.SEVERE,
        children: [leaf('before', Grade.OK), leaf('first', Grade.SEVERE)],
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
