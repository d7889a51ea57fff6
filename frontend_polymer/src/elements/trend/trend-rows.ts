// Which rows come first, and what stands beside them.

import type { Trend } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { translated } from '../parts/words';

/** What is written beside a row: its module, and what it is there. */
export interface RowLabel {
  readonly group: string;
  readonly rest: string;
}

/**
 * Targets of one module stand together. By `moves`, one number for each target of the file, the
 * modules and what they hold begin with what moves most; without in the order of the model.
 */
export function ordered(
  { group }: Trend,
  targets: readonly number[],
  moves: readonly number[] | null,
): number[] {
  const groups = new Map<number, number[]>();
  for (const target of targets) {
    const members = groups.get(group[target]!);
    if (members) members.push(target);
    else groups.set(group[target]!, [target]);
  }
  const together = [...groups.values()];
  if (!moves) return together.flat();
  // Of two infinities the difference is no number.
  const byMoves = (one: number, other: number) =>
    moves[one] === moves[other] ? one - other : moves[other]! - moves[one]!;
  for (const members of together) members.sort(byMoves);
  return together.sort(([one], [other]) => byMoves(one!, other!)).flat();
}

/** What the kind of a target is called. */
export function kindOf({ kinds, kind }: Trend, target: number, text: Texts): string {
  const code = kinds[kind[target]!]!;
  return translated(text.trend.kinds, code, code);
}

/** The kind is left out where it is chosen, and the module where it stands beside. */
export function labelOf(
  trend: Trend,
  target: number,
  isKindChosen: boolean,
  text: Texts,
): RowLabel {
  const group = trend.groups[trend.group[target]!]!;
  const name = trend.names[target]!;
  const at = group === '' ? -1 : name.indexOf(group);
  const own = at < 0 ? name : name.slice(at + group.length).replace(/^[.:]/, '');
  const kind = kindOf(trend, target, text);
  return { group, rest: isKindChosen ? own || kind : [kind, own].filter(Boolean).join(' ') };
}

/** How much targets move, asked for once for what is shown. */
export class RowOrder {
  moves: readonly number[] | null = null;
  private key = '';

  /** Asks where nobody did for the same; whether that is still what is wanted then. */
  async settle<Asked>(
    asked: Asked | null,
    ask: (asked: Asked) => Promise<readonly number[] | null>,
  ): Promise<boolean> {
    const key = asked === null ? '' : JSON.stringify(asked);
    if (key === this.key) return true;
    this.key = key;
    this.moves = null;
    const moves = asked === null ? null : await ask(asked);
    if (key !== this.key) return false;
    this.moves = moves;
    return true;
  }
}
