import { ask, type Fetch } from '../data/api';
import { asProblem } from '../data/problem';
import { Side } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { pairOf, type AppState, type Measuring } from './app-state';
import type { Store } from './state';

/** Milliseconds after which is said that they are on their way: of a million nodes they take long. */
const LATE = 10_000;

/** Fetches the measures of the graph that is shown: colours can do without them until then. */
export async function loadMeasures(
  store: Store<AppState>,
  fetch: Fetch,
  signal: AbortSignal,
): Promise<void> {
  const { view, graphs } = store.state;
  if (!graphs?.[Side.BENCH]) return;
  const { file, step, rank } = view;
  const say = (measuring: Measuring) => {
    if (!signal.aborted && store.state.measuring !== measuring) store.update({ measuring });
  };
  say(null);
  const waiting = setTimeout(() => say('late'), LATE);
  try {
    const key = { file, step, rank };
    const isGrouped = (pairOf(store.state)?.groups ?? 0) > 0;
    const groups = isGrouped ? await ask(fetch, 'groups', key, signal) : null;
    if (!signal.aborted) store.update({ groups });
    const { revision, ...found } = await ask(fetch, 'measures', key, signal);
    if (!signal.aborted && revision === graphs[Side.NPU].revision) {
      // As they cross the wire: lists of numbers take twice the room.
      const [scaled, roundings] = [found.scaled, found.roundings].map((of) =>
        Float32Array.from(of),
      );
      store.update({ measures: { scaled: scaled!, roundings: roundings! } });
    }
    say(null);
  } catch (error) {
    const problem = asProblem(error);
    say(problem.status === OF_OLDER_SERVERS ? null : problem);
  } finally {
    clearTimeout(waiting);
  }
}

/** They have no measures; colours are then the documented ones. */
const OF_OLDER_SERVERS = 404;

/** Why there are not all ways to colour yet, in words; nothing where they are, or will be soon. */
export function whyLate(measuring: Measuring, { notices }: Texts): string {
  if (measuring === null) return '';
  if (measuring === 'late') return notices.coloursLate;
  return notices.coloursFailed(`${measuring.message} ${measuring.remedy}`.trim());
}
