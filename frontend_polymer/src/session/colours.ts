// Which ways of colouring a graph has, the one that is shown, and the one after it.

import type { ColourMode } from '../data/codes';
import { colouringOf, hasMeasures, type Colouring, type Known } from '../data/colouring';
import type { Graph } from '../data/graph';
import { Side, type GradeBand } from '../generated/graph_pb';
import { fileOf, hasBench, pairOf, type AppState } from './app-state';
import { isRounding, suspectsHere } from './verdict';

/** The colourings that say something here, in the order of the switch. */
export function colourModesOf(state: AppState): ColourMode[] {
  const isMeasured = hasMeasures(state.measures, state.graphs?.[Side.NPU]);
  const file = fileOf(state);
  return [
    ...(hasBench(state) && file?.verdict ? (['role'] as const) : []),
    'precision',
    ...(hasBench(state) && isMeasured ? (['beyond', 'scaled'] as const) : []),
    ...(file?.overflowChecked ? (['overflow'] as const) : []),
  ];
}

/** What the colours say: what was chosen if it says something here, else the first that does. */
export function coloursOf(state: AppState): ColourMode {
  const { colours } = state.view;
  const isRole = hasBench(state) && fileOf(state)?.verdict !== undefined;
  if (colours !== 'auto' && colours !== 'role') return colours;
  if (isRole) return 'role';
  // A single graph has no errors to colour by; where values overflow is what there is to see.
  const counts = pairOf(state)?.overflowCounts ?? [];
  const isOverflowing = !hasBench(state) && counts.slice(1).some((count) => count > 0);
  return isOverflowing ? 'overflow' : 'precision';
}

export function nextColours(state: AppState): ColourMode {
  const modes = colourModesOf(state);
  return modes[(modes.indexOf(coloursOf(state)) + 1) % modes.length]!;
}

/** The colouring of the debug side as it is shown; counts and lists of nodes go by it. */
export function shownColouring(state: AppState, graph: Graph): Colouring {
  return colouringOf(graph, coloursOf(state), knownOf(state), false);
}

let last: { readonly of: readonly unknown[]; readonly known: Known } | null = null;

/** What colours go by; the same object as long as nothing of it has changed. */
export function knownOf(state: AppState): Known {
  const { measures, graphs, view } = state;
  const file = fileOf(state);
  const of = [measures, graphs, file?.bands, file?.verdict, view.step, view.rank];
  if (last?.of.every((part, at) => part === of[at])) return last.known;
  const known = {
    ...{ measures, bands: file?.bands ?? NO_BANDS, suspects: suspectIndexes(state) },
    isClean: isRounding(file?.verdict),
  };
  last = { of, known };
  return known;
}

/** Who may be to blame in the graph that is shown, ascending, per side; a guess is no suspect. */
export function suspectIndexes(state: AppState): readonly [Int32Array, Int32Array] {
  const isTold = state.graphs && !isRounding(fileOf(state)?.verdict);
  const found = isTold ? suspectsHere(state) : [];
  const on = (side: Side) => {
    const count = state.graphs?.[side]?.count ?? 0;
    const indexes = found.filter((one) => one.side === side && one.index < count);
    return Int32Array.from(indexes, ({ index }) => index).sort();
  };
  return [on(Side.NPU), on(Side.BENCH)];
}

const NO_BANDS: readonly GradeBand[] = [];
