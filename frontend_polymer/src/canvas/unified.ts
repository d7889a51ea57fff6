// What a row of the one tree says of both sides.

import { Side } from '../generated/graph_pb';
import { otherSide, type PerSide } from '../layout/sides';
import type { Frame } from './frame';
import type { Item } from './items';

/** The norms of a row, debug first; empty texts where there is none. */
export function valuesAt({ unified, side, graph, rows }: Frame, item: Item): PerSide<string> {
  if (!unified) return ['', ''];
  const beside = rows.node[otherSide(side)][item.row]!;
  const partner = beside >= 0 ? unified.other.node(beside) : graph.partner[item.node]!;
  const own = valueText(unified.values[side][item.node]);
  const others = valueText(unified.values[otherSide(side)][partner]);
  return side === Side.NPU ? [own, others] : [others, own];
}

/** Whose a row is, where it is not both sides' alike. */
export function sideText({ unified, side, tree, rows }: Frame, { id, row }: Item): string[] {
  if (!unified) return [];
  const { words, other } = unified;
  const beside = rows.node[otherSide(side)][row]!;
  if (beside < 0) {
    const isElsewhere = !tree.isSeries(id) && tree.graph.partner[id]! >= 0;
    return [isElsewhere ? words.elsewhere : words.only[side]];
  }
  const [own, others] = [tree.label(id), other.label(beside)];
  if (own.title !== others.title) return [`↔ ${others.title}`, '↔'];
  return own.type === others.type ? [] : [`↔ ${others.type}`, '↔'];
}

/** A norm, short; nothing for none. */
export function valueText(value: number | undefined): string {
  if (value === undefined || value < 0) return '';
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : '∞';
  const isPlain = value === 0 || (value >= 0.001 && value < 1e5);
  return isPlain ? String(Number(value.toPrecision(5))) : value.toExponential(3).replace('e+', 'e');
}
