// Which ways of colouring a graph has, and the one after the current.

import type { ColourMode } from '../data/codes';
import { colouringOf, hasMeasures, type Colouring } from '../data/colouring';
import type { Graph } from '../data/graph';
import { Side } from '../generated/graph_pb';
import { fileOf, hasBench, type AppState } from './app-state';

/** The colourings that say something here, in the order of the switch. */
export function colourModesOf(state: AppState): ColourMode[] {
  const isMeasured = hasMeasures(state.measures, state.graphs?.[Side.NPU]);
  return [
    'precision',
    ...(hasBench(state) && isMeasured ? (['beyond', 'scaled'] as const) : []),
    ...(fileOf(state)?.overflowChecked ? (['overflow'] as const) : []),
  ];
}

export function nextColours(state: AppState): ColourMode {
  const modes = colourModesOf(state);
  return modes[(modes.indexOf(state.view.colours) + 1) % modes.length]!;
}

let kept: { readonly key: readonly unknown[]; readonly colouring: Colouring } | null = null;

/** The colouring of the debug side as it is shown; counts and lists of nodes go by it. */
export function shownColouring(state: AppState, graph: Graph): Colouring {
  const bands = fileOf(state)?.bands ?? [];
  const { measures, view } = state;
  const key = [graph, view.colours, measures, bands];
  if (!kept?.key.every((part, at) => part === key[at])) {
    kept = { key, colouring: colouringOf(graph, view.colours, { measures, bands }, false) };
  }
  return kept.colouring;
}
