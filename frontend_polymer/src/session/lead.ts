// What is known of the suspect that the verdict card shows: its line of code, its tensors.

import { ask, type Fetch } from '../data/api';
import type { NodeDetail, Suspect } from '../generated/graph_pb';
import type { AppState } from './app-state';
import type { Store } from './state';
import { isSelected, shownSuspect } from './verdict';

/** Fetches the node of the suspect that is shown, unless it is selected, and so there anyway. */
export function followLead(store: Store<AppState>, fetch: Fetch): void {
  let asked: Suspect | undefined;
  let asking = new AbortController();
  store.subscribe((state) => {
    const suspect = shownSuspect(state);
    const isAwaited = state.view.page !== 'overview' && (!state.graphs || state.busy !== null);
    if (!suspect || suspect === asked || isAwaited || isSelected(state, suspect)) return;
    asked = suspect;
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    const { step, rank, side, index } = suspect;
    ask(fetch, 'node', { file: state.view.file, step, rank, side, index }, signal)
      .then((detail) => {
        if (!signal.aborted) store.update({ lead: { suspect, detail } });
      })
      // Of a page it may have been left out; the card says the rest.
      .catch(() => undefined);
  });
}

/** The node of a suspect, as far as it is known. */
export function detailOf(state: AppState, suspect: Suspect | undefined): NodeDetail | null {
  if (!suspect) return null;
  if (state.view.page !== 'overview' && isSelected(state, suspect)) return state.detail;
  return state.lead?.suspect === suspect ? state.lead.detail : null;
}
