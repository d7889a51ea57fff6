// What was found, as rows of a file.

import { GRADES, OVERFLOWS } from '../../data/codes';
import type { Field } from '../../data/delimited';
import { Grade, Overflow, type SearchResult } from '../../generated/graph_pb';
import type { AppState } from '../../session/app-state';
import { moduleAround, modulePath } from '../../session/conditions';

const HEAD = [
  'step',
  'rank',
  'side',
  'seq',
  'name',
  'grade',
  'error',
  'overflow',
  'reason',
  'module',
];
const SIDES = ['npu', 'bench'];

/** The hits in the graph that is shown, in the order listed. */
export function graphHitRows({ hits, graphs, view }: AppState): Field[][] {
  const graph = hits && graphs?.[hits.side];
  if (!graph) return [HEAD];
  const rows = Array.from(hits.sequence, (index): Field[] => [
    ...[view.step, view.rank, SIDES[hits.side], index, graph.name(index)],
    gradeWord(graph.grade[index]!),
    errorOf(graph.error[index]!),
    overflowWord(graph.overflowOf(index)),
    graph.unmatchedReasons[graph.unmatchedReason[index]!] ?? '',
    moduleAround(graph, index),
  ]);
  return [HEAD, ...rows];
}

/** The hits of all pages of a search in all steps and ranks. */
export function fileHitRows(pages: readonly SearchResult[]): Field[][] {
  const rows = pages.flatMap((page) =>
    page.index.map((index, at): Field[] => [
      ...[page.step[at], page.rank[at], SIDES[page.side[at]!], index, page.name[at]],
      gradeWord(page.grade[at]!),
      errorOf(page.error[at]!),
      overflowWord(OVERFLOWS[page.overflow[at]!] ?? Overflow.NONE),
      page.unmatchedReason[at],
      modulePath(page.module[at] ?? ''),
    ]),
  );
  return [HEAD, ...rows];
}

/** The words of the database. */
function gradeWord(code: number): string {
  return Grade[GRADES[code] ?? Grade.UNGRADED].toLowerCase();
}

function overflowWord(level: Overflow): Field {
  return level === Overflow.NONE ? undefined : Overflow[level].toLowerCase();
}

/** Minus one stands for none. */
function errorOf(error: number): Field {
  return error < 0 ? undefined : error;
}
