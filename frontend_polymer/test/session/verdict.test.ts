import { expect, test } from 'vitest';

import { formatBytes } from '../../src/elements/parts/format';
import { Side, type Suspect, type Verdict } from '../../src/generated/graph_pb';
import type { AppState } from '../../src/session/app-state';
import { suspectIndexes } from '../../src/session/colours';
import { eachCallOnce, isRounding } from '../../src/session/verdict';

const suspect = (step: number, rank: number, name: string, cause = 'output', side = Side.NPU) =>
  ({ step, rank, name, cause, side }) as Suspect;

test('a call that is wrong in several places is listed where it is first', () => {
  const all = [
    suspect(0, 0, 'Tensor.mul.1.forward'),
    suspect(0, 1, 'Tensor.mul.1.forward'),
    suspect(0, 0, 'Tensor.mul.1.forward', 'missing', Side.BENCH),
    suspect(1, 0, 'Tensor.mul.1.forward'),
    suspect(1, 0, 'Module.a.Linear.forward.0', 'weights'),
    suspect(1, 0, 'Module.b.Linear.forward.0', 'weights'),
    suspect(1, 0, 'Module.b.Linear.forward.0', 'weight'),
  ];
  expect(eachCallOnce(all)).toEqual([all[0], all[2], all[4], all[6]]);
});

test.each([
  ['clean', 'clean', true],
  ['undecided', 'cannot_tell.hidden', true],
  ['undecided', 'cannot_tell.no_call', false],
  ['fault', 'accused', false],
])('of %s, because of %s, rounding is all that differs: %s', (conclusion, code, expected) => {
  const said = JSON.stringify([{ code, nodes: 3 }]);
  expect(isRounding({ conclusion, said } as Verdict)).toBe(expected);
});

test.each([
  ['look_first', [4]],
  ['cannot_tell.hidden', []],
])('because of %s the nodes %j are coloured as suspects', (code, expected) => {
  const guess = { ...suspect(0, 0, 'Tensor.mul.1.forward'), index: 4 };
  const verdict = { conclusion: 'undecided', said: JSON.stringify([{ code }]), suspects: [guess] };
  const state = {
    catalog: { files: [{ file: 'one.vis.db', verdict }] },
    view: { file: 'one.vis.db', step: 0, rank: 0 },
    graphs: [{ count: 9 }, { count: 9 }],
  } as unknown as AppState;
  expect([...suspectIndexes(state)[0]]).toEqual(expected);
});

test.each([
  [999, '999 bytes'],
  [1000, '1.0 kB'],
  [975_273, '975 kB'],
  [1_659_751, '1.7 MB'],
  [2.5e15, '2500 TB'],
])('%d bytes are %s', (bytes, said) => {
  expect(formatBytes(bytes)).toBe(said);
});
