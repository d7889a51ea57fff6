import { describe, expect, it } from 'vitest';

import { pressKey, type KeyTarget } from '../../../src/canvas/keys';
import { commandsOf, type CommandTarget } from '../../../src/elements/app/commands';
import { en } from '../../../src/i18n/en';
import { INITIAL_VIEW } from '../../../src/session/state';
import { llamaPair } from '../../graphs/llama';
import { graphPair } from '../../graphs/synthetic';

/** Whether the canvas takes this key for itself. */
function isOfCanvas(key: string): boolean {
  const target = new Proxy({}, { get: () => () => undefined }) as KeyTarget;
  return pressKey({ key } as KeyboardEvent, target);
}

function commands() {
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

describe('keys of commands', () => {
  it('are none that the graph has another use for', () => {
    const keys = commands().flatMap((command) => command.keys);
    expect(keys.length).toBeGreaterThan(20);
    expect(keys.filter(isOfCanvas)).toEqual([]);
  });

  it('mean one thing each', () => {
    const keys = commands().flatMap((command) => command.keys);
    expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
  });
});
