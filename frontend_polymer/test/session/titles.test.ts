import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { DatabaseFileSchema } from '../../src/generated/graph_pb';
import { fileTitle } from '../../src/session/titles';

test.each([
  ['compare_20261128202552.vis.db', 'gem_rope', 'gem_good', 'gem_rope ↔ gem_good'],
  ['a/b/build_20261128202552.vis.db', 'gem', '', 'a/b/gem'],
  ['compare_20261128202552.vis.db', '', '', 'compare_20261128202552'],
  ['rope.vis.db', 'gem_rope', 'gem_good', 'rope'],
  ['run_42.vis.db', 'gem_rope', 'gem_good', 'run_42'],
])('%s of %s and %s is called %s', (file, npuName, benchName, title) => {
  expect(fileTitle(create(DatabaseFileSchema, { file, npuName, benchName }))).toBe(title);
});
