// The hierarchy as a tree that assistive technology understands.

import type { SceneRow } from '../../canvas/scene';
import { GRADES } from '../../data/codes';
import type { Graph } from '../../data/graph';
import { Grade } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { SIDES, type Graphs } from '../../layout/sides';
import { formatNumber } from '../parts/format';
import { gradeName, translated } from '../parts/words';

/** Zoomed out, thousands of rows are in view; these many around the selected one are mirrored. */
export const MOST_ITEMS = 200;

/** What there is to say about a node at a glance: its full name, its grade or why it has none. */
export function describe(graph: Graph, index: number, text: Texts): string[] {
  const grade = GRADES[graph.grade[index]!]!;
  const error = graph.error[index]!;
  const lines = [graph.name(index)];
  if (grade === Grade.UNMATCHED) {
    const reason = graph.unmatchedReasons[graph.unmatchedReason[index]!] ?? '';
    const why = translated(text.reasons, reason, reason);
    lines.push(why ? `${text.grades.unmatched}: ${why}` : text.grades.unmatched);
  } else if (grade !== Grade.UNGRADED) {
    lines.push(
      error < 0 ? gradeName(grade, text) : `${gradeName(grade, text)} ${formatNumber(error)}`,
    );
  }
  return lines;
}

/**
 * Mirrors the rows in view as tree items. The canvas keeps the focus and owns them; the selected
 * one is its active descendant, so a screen reader says what the arrow keys reach.
 */
export function renderOutline(
  canvas: HTMLElement,
  tree: HTMLElement,
  rows: readonly SceneRow[],
  graphs: Graphs | null,
  text: Texts,
): void {
  canvas.setAttribute('role', 'application');
  canvas.setAttribute('aria-owns', tree.id);
  const places = SIDES.map(() => new Map<number, Map<number, number>>());
  const middle = Math.max(
    0,
    rows.findIndex((row) => row.selected),
  );
  const first = Math.max(0, Math.min(middle - MOST_ITEMS / 2, rows.length - MOST_ITEMS));
  const mirrored = graphs ? rows.slice(first, first + MOST_ITEMS) : [];
  const items = mirrored.map((row) => {
    const graph = graphs![row.side]!;
    return treeItem(row, graph, placesBelow(graph, row.index, places[row.side]!), text);
  });
  tree.replaceChildren(...items);
  const selected = items.find((item) => item.ariaSelected === 'true');
  if (selected) canvas.setAttribute('aria-activedescendant', selected.id);
  else canvas.removeAttribute('aria-activedescendant');
}

function treeItem(
  row: SceneRow,
  graph: Graph,
  siblings: ReadonlyMap<number, number>,
  text: Texts,
): HTMLElement {
  const item = document.createElement('div');
  item.id = `node-${row.side}-${row.id}`;
  item.role = 'treeitem';
  item.ariaLevel = String(row.depth + 1);
  item.ariaSetSize = String(siblings.size);
  item.ariaPosInSet = String(siblings.get(row.index));
  item.ariaSelected = String(row.selected);
  if (row.expandable) item.ariaExpanded = String(row.expanded);
  const [, ...facts] = describe(graph, row.index, text);
  const inside = row.expandable && !row.expanded ? insideText(graph, row.index, text) : '';
  item.textContent = [row.name, ...facts, inside].filter((part) => part !== '').join(', ');
  return item;
}

/** The worst that a closed module holds; empty where all is well. */
function insideText(graph: Graph, index: number, text: Texts): string {
  const worst = graph.rollup.worstGrade(index + 1, graph.end[index]!);
  if (worst === Grade.UNGRADED || worst === Grade.OK) return '';
  const count = graph.rollup.grade(worst, index + 1, graph.end[index]!);
  return text.view.inside(count, gradeName(worst, text));
}

/** The siblings of a node with their places, counted from 1. */
function placesBelow(
  graph: Graph,
  index: number,
  known: Map<number, Map<number, number>>,
): Map<number, number> {
  const above = graph.parent[index]!;
  let places = known.get(above);
  if (!places) {
    const siblings = above < 0 ? [index] : [...graph.children(above)];
    places = new Map(siblings.map((sibling, at) => [sibling, at + 1]));
    known.set(above, places);
  }
  return places;
}
