// The numbers of the one tree: asked for once it is shown.

import { ask, type Fetch } from '../data/api';
import { Side } from '../generated/graph_pb';
import type { AppState } from './app-state';
import type { Store } from './state';

/** Fetches what nodes put out whenever the one tree is shown without it. */
export function followValues(store: Store<AppState>, fetch: Fetch): void {
  let asked: unknown = null;
  let asking = new AbortController();
  store.subscribe((state) => {
    const { graphs, view, values } = state;
    if (!view.unified || !graphs?.[Side.BENCH] || values || asked === graphs) return;
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
