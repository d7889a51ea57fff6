// Which ways of colouring a graph has, and the one after the current.

import type { ColourMode } from '../data/codes';
import { colouringOf, hasMeasures, type Colouring } from '../data/colouring';
import type { Graph } from '../data/graph';
import { Side, type GradeBand } from '../generated/graph_pb';
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

/** The colouring of the debug side as it is shown; counts and lists of nodes go by it. */
export function shownColouring(state: AppState, graph: Graph): Colouring {
  const { measures, view } = state;
  const bands = fileOf(state)?.bands ?? NO_BANDS;
  return colouringOf(graph, view.colours, { measures, bands }, false);
}

const NO_BANDS: readonly GradeBand[] = [];
