import { expect, it } from 'vitest';

import { nodeActions } from '../../../src/elements/graph/node-actions';
import { Side } from '../../../src/generated/graph_pb';
import { en } from '../../../src/i18n/en';
import type { Session } from '../../../src/session/session';
import { llamaPair } from '../../graphs/llama';
import { graphPair } from '../../graphs/synthetic';

it('offers to expand what is below where there is something', () => {
  const graphs = graphPair(...llamaPair({ layers: 2 }));
  const session = { state: { graphs } } as unknown as Session;
  const nothing = { expand: () => undefined, say: () => undefined };
  const offered = Array.from({ length: graphs[0].count }, (_, index) =>
    nodeActions(session, { side: Side.NPU, index }, en, nothing).some(
      ({ label }) => label === en.view.expandBelow,
    ),
  );
  const parents = new Set(graphs[0].parent);
  expect(offered).toEqual(offered.map((_, index) => parents.has(index)));
  expect(new Set(offered).size).toBe(2);
});
