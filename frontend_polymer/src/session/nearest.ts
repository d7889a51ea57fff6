// What can be shown of what an address asks for.

import type { Catalog, DatabaseFile, GraphPair } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import type { Graphs } from '../layout/sides';
import { ALL_MICRO_STEPS, type ViewState } from './state';

/** Something that an address asks for and that is not there. */
export interface Unmet {
  readonly kind: 'place' | 'microStep' | 'node' | 'look' | 'malformed';
  /** In words of the address. */
  readonly wanted: string;
}

/** The view that exists and is nearest to the one wanted, in the file that it names. */
export function nearestView(catalog: Catalog | null, wanted: ViewState): ViewState {
  const files = catalog?.files ?? [];
  const first = files.find((candidate) => !candidate.problem) ?? files[0];
  const asked = files.find((candidate) => candidate.file === wanted.file);
  const file = wanted.file === '' ? first : asked;
  if (!file) return wanted;
  const page = wanted.page === 'auto' ? firstPage(file) : wanted.page;
  const pair = pairIn(file, wanted) ?? nearestPair(file.graphs, wanted);
  const micro = pair && wanted.micro < pair.microSteps ? wanted.micro : ALL_MICRO_STEPS;
  const { step, rank } = pair ?? wanted;
  const isThere = file.file === wanted.file && step === wanted.step && rank === wanted.rank;
  const look = isThere || wanted.file === '' ? wanted.look : null;
  return { ...wanted, page, file: file.file, step, rank, micro, look };
}

/** A single graph is shown at once, unless the runs should not be compared as they are. */
function firstPage({ graphs, configuration }: DatabaseFile): 'overview' | 'graph' {
  const isDoubtful = configuration !== undefined && configuration.outcome !== 'pass';
  return graphs.length > 1 || isDoubtful ? 'overview' : 'graph';
}

/** What of the wanted view the shown one lacks; `shown` is the nearest one. */
export function unmetIn(wanted: ViewState, shown: ViewState): Unmet[] {
  const unmet: Unmet[] = [];
  const isOtherPlace = wanted.step !== shown.step || wanted.rank !== shown.rank;
  if (isOtherPlace && wanted.page === 'graph') {
    unmet.push({ kind: 'place', wanted: `${wanted.step} / ${wanted.rank}` });
  }
  if (wanted.micro !== shown.micro) unmet.push({ kind: 'microStep', wanted: `${wanted.micro}` });
  if (wanted.node !== shown.node) unmet.push({ kind: 'node', wanted: wanted.node });
  return unmet;
}

export function pairIn(
  file: DatabaseFile | undefined,
  view: Pick<ViewState, 'step' | 'rank'>,
): GraphPair | undefined {
  return file?.graphs.find((pair) => pair.step === view.step && pair.rank === view.rank);
}

/** Another rank of the same step before anything else. */
function nearestPair(
  pairs: readonly GraphPair[],
  view: Pick<ViewState, 'step'>,
): GraphPair | undefined {
  return pairs.find((pair) => pair.step === view.step) ?? pairs[0];
}

/** The node that a view names, if there is one in these graphs. */
export function nodeIn(graphs: Graphs, view: ViewState): NodeRef | null {
  const graph = graphs[view.side];
  if (!view.node || !graph) return null;
  for (let index = 0; index < graph.count; index++) {
    if (graph.name(index) === view.node) return { side: view.side, index };
  }
  return null;
}
