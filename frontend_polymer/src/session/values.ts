// What nodes put out: asked for once there is room for it, in one tree or in a wide window.

import { ask, type Fetch } from '../data/api';
import { Side } from '../generated/graph_pb';
import type { AppState } from './app-state';
import type { Store } from './state';

/** Windows whose rows have room for more than a name; tests of the session have none. */
function isWide(): boolean {
  return 'innerWidth' in globalThis && innerWidth >= WIDE;
}

const WIDE = 1600;

/** Fetches what nodes put out whenever it is to be shown and not there. */
export function followValues(store: Store<AppState>, fetch: Fetch): void {
  let asked: unknown = null;
  let asking = new AbortController();
  store.subscribe((state) => {
    const { graphs, view, values } = state;
    if (!(view.unified || isWide()) || !graphs?.[Side.BENCH] || values || asked === graphs) return;
    asked = graphs;
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    const { file, step, rank } = view;
    ask(fetch, 'values', { file, step, rank }, signal)
      .then((found) => {
        if (!signal.aborted && store.state.graphs === graphs) store.update({ values: found });
      })
      // An older server has none; the tree can do without.
      .catch(() => undefined);
  });
}
