import { create } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';

import { CatalogSchema } from '../../src/generated/graph_pb';
import { nearestView } from '../../src/session/nearest';
import { INITIAL_VIEW } from '../../src/session/state';

it.each([
  [1, undefined, 'graph'],
  [1, 'pass', 'graph'],
  [1, 'warning', 'overview'],
  [1, 'error', 'overview'],
  [2, 'pass', 'overview'],
])('%i graphs with configurations that say %s open on the %s', (count, outcome, page) => {
  const graphs = Array.from({ length: count }, (_, rank) => ({ step: 0, rank }));
  const configuration = outcome === undefined ? {} : { configuration: { outcome } };
  const catalog = create(CatalogSchema, {
    files: [{ file: 'a.vis.db', graphs, ...configuration }],
  });
  expect(nearestView(catalog, INITIAL_VIEW).page).toBe(page);
  // A link that names a page is followed.
  expect(nearestView(catalog, { ...INITIAL_VIEW, page: 'graph' }).page).toBe('graph');
});
