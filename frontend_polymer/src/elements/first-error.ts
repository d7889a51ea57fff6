import type { Graph } from '../data/graph';

/** The earliest operator with the worst grade, not the modules around it. */
export function firstOfTheWorst(graph: Graph): number {
  const worst = graph.worstGrade(0);
  let found = graph.grade.indexOf(worst);
  while (graph.rollup.grade(worst, found + 1, graph.end[found]!) > 0) {
    found = graph.grade.indexOf(worst, found + 1);
  }
  return found;
}
