import { describe, expect, test } from 'vitest';
import { answersOf, asWritten, modulePathOf, shortPath } from '../../src/data/card';
import type { Fact } from '../../src/data/facts';

const SAID: readonly Fact[] = [
  { code: 'accused', name: 'Tensor.mul.0.forward' },
  { code: 'inputs_agree', name: 'output.0', how: { code: 'differs.norm', times: 1.5 } },
  { code: 'argument', name: '1', own: '0.375', theirs: '0.25' },
  { code: 'size', times: { code: 'times.beyond', times: 1000 } },
  { code: 'followers', nodes: 191 },
  { code: 'probability', percent: 97 },
  { code: 'on_ranks.all', total: 4 },
  { code: 'limits', forward: 0.01, backward: 0.1 },
  { code: 'not_judged.left_out' },
  { code: 'run_again.passed' },
];

describe('the facts of a verdict', () => {
  const codes = (facts: readonly Fact[]) => facts.map(({ code }) => code);
  const answers = answersOf(SAID);

  test('answer one question each', () => {
    expect(codes(answers.differing)).toEqual(['argument']);
    expect(codes(answers.what)).toEqual(['inputs_agree', 'run_again.passed']);
    expect(codes(answers.sure)).toEqual(['size']);
    expect(codes(answers.follows)).toEqual(['followers', 'on_ranks.all']);
    expect(codes(answers.limits)).toEqual(['limits', 'not_judged.left_out']);
    expect(answers.probability).toBe(97);
  });

  test('are all told, but for where it is and what has a place of its own', () => {
    const { differing, what, sure, follows, limits } = answers;
    const told = codes([...differing, ...what, ...sure, ...follows, ...limits]);
    expect(told.sort()).toEqual(
      codes(SAID)
        .filter((code) => code !== 'accused' && code !== 'probability')
        .sort(),
    );
  });

  test('are told of an older file, too, whose sentence is one fact', () => {
    const old = { code: 'text', text: 'Something is off.' };
    expect(answersOf([old])).toMatchObject({ what: [old], probability: null });
  });
});

test.each([
  ['[None, None, 2]', 'Tensor.__getitem__.3.forward', '::2'],
  ['[1, -1, None]', 'Tensor.__setitem__.0.forward', '1:-1'],
  ['[None, None, 2]', 'Torch.pad.0.forward', '[None, None, 2]'],
  ['[1, 2]', 'Tensor.__getitem__.3.forward', '[1, 2]'],
])('%s of %s is %s', (value, call, expected) => expect(asWritten(value, call)).toBe(expected));

test.each([
  ['Module.model.layers.1.self_attn.LlamaAttention.forward.0', 'model.layers.1.self_attn'],
  ['Cell.net.fc.Dense.backward.12', 'net.fc'],
  ['DefaultModel', 'DefaultModel'],
  ['', ''],
])('the path of %s is %s', (name, path) => expect(modulePathOf(name)).toBe(path));

test('a long path keeps both ends', () => {
  expect(shortPath('a.b.c.d.e.f')).toBe('a.b.c.d.e.f');
  expect(shortPath('a.b.c.d.e.f.g.h')).toBe('a.b.c.….f.g.h');
});
