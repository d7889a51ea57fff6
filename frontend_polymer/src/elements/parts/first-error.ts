import type { Graph } from '../../data/graph';
import { Grade } from '../../generated/graph_pb';

const ERRORS = [Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE];

/** What counts as an error here: moderate and worse; in a file without any, slight too. */
export function leastError(graph: Graph): Grade {
  return graph.worstGrade(0) === Grade.SLIGHT ? Grade.SLIGHT : Grade.MODERATE;
}

/** The earliest operator in error, not the modules around it; -1 when there is none. */
export function firstError(graph: Graph): number {
  const errors = new Set<number>(ERRORS.slice(ERRORS.indexOf(leastError(graph))));
  let found = -1;
  for (let index = 0; index < graph.count; index++) {
    if (found >= 0 && index >= graph.end[found]!) break;
    if (errors.has(graph.grade[index]!)) found = index;
  }
  return found;
}
