import { expect, test } from 'vitest';
import { GRADES, OVERFLOWS } from '../../src/data/codes';
import { BY_SEVERITY } from '../../src/data/rollup';
import { Grade } from '../../src/generated/graph_pb';
import { forSeeds, randomPair, randomTree } from '../graphs/random';
import { graphPair, singleGraph } from '../graphs/synthetic';

test('what is below a node equals counting', () => {
  forSeeds(25, (random) => {
    const [graph] = graphPair(...randomPair(random, 300));
    for (let node = 0; node < graph.count; node++) {
      const [from, to] = [node + 1, graph.end[node]!];
      const below = Array.from({ length: to - from }, (_, place) => graph.gradeOf(from + place));
      for (const grade of GRADES) {
        const expected = below.filter((other) => other === grade).length;
        expect(graph.rollup.grade(grade, from, to)).toBe(expected);
      }
      const graded = below.filter((grade) => grade >= Grade.OK && grade <= Grade.SEVERE);
      expect(graph.rollup.worstGrade(from, to)).toBe(Math.max(Grade.UNGRADED, ...graded));
      const places = below.map((grade) => BY_SEVERITY.indexOf(grade));
      expect(graph.rollup.mostSevere(from, to)).toBe(BY_SEVERITY[Math.max(0, ...places)]);
    }
  });
});

test('overflow below a node equals counting', () => {
  forSeeds(10, (random) => {
    const graph = singleGraph(randomTree(random, 300));
    for (let node = 0; node < graph.count; node++) {
      const [from, to] = [node, graph.end[node]!];
      const levels = Array.from({ length: to - from }, (_, place) =>
        graph.overflowOf(from + place),
      );
      for (const level of OVERFLOWS.slice(1)) {
        const expected = levels.filter((other) => other === level).length;
        expect(graph.rollup.overflow(level, from, to)).toBe(expected);
      }
      expect(graph.rollup.worstOverflow(from, to)).toBe(Math.max(...levels));
    }
  });
});

test('every grade has its place in the order of severity', () => {
  expect([...BY_SEVERITY].sort()).toEqual([...GRADES].sort());
});
