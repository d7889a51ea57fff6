import { commandsOf, type Command, type CommandTarget } from '../../../src/elements/app/commands';
import { en } from '../../../src/i18n/en';
import { INITIAL_VIEW } from '../../../src/session/state';
import { llamaPair } from '../../graphs/llama';
import { graphPair } from '../../graphs/synthetic';

/** Those of a comparison of two ranks. */
export function allCommands(): Command[] {
  const [graph] = graphPair(...llamaPair({ layers: 2 }));
  const pairs = [0, 1].map((rank) => ({
    step: 0,
    rank,
    benchNodes: graph.count,
    npuNodes: graph.count,
  }));
  const file = { file: 'a.vis.db', graphs: pairs, isComparison: true, bands: [] };
  const view = { ...INITIAL_VIEW, page: 'graph', file: 'a.vis.db' };
  const state = { view, catalog: { files: [file] }, graphs: [graph, graph], measures: null };
  const target = { state, session: { state } } as unknown as CommandTarget;
  return commandsOf(target, en);
}
