import { readFileSync } from 'node:fs';

import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import {
  callSite,
  editorLink,
  packageOf,
  placeText,
  stackSections,
  stackText,
} from '../../src/data/stack-frames';
import { StackFrameSchema } from '../../src/generated/graph_pb';

const frame = (file: string, isLibrary: boolean, line = 7) =>
  create(StackFrameSchema, { file, line, function: 'forward', source: '  x = f(x)', isLibrary });

/** The builder is held to the same ones. */
const FRAMEWORKS = JSON.parse(
  readFileSync('test/elements/details/frameworks.json', 'utf8'),
) as readonly { file: string; isLibrary: boolean; isFramework: boolean }[];

const OWN = frame('/home/me/train.py', false);
const TORCH = frame('/usr/lib/python3/site-packages/torch/nn/linear.py', true);
const MODEL = frame('site-packages/transformers/models/llama/modeling_llama.py', true, 193);
const OTHER = frame('site-packages/transformers/utils/generic.py', true);
const COLLECTOR = frame('site-packages/msprobe/core/api_registry.py', true);

describe('packageOf', () => {
  it.each([
    ['/usr/lib/python3/site-packages/torch/nn/linear.py', true, 'torch'],
    ['C:\\Python\\Lib\\site-packages\\transformers\\a.py', true, 'transformers'],
    ['dist-packages/six.py', true, 'six'],
    ['/usr/lib/python3.11/contextlib.py', true, 'python'],
    ['<frozen runpy>', true, 'python'],
    ['/home/me/site-packages.py', false, ''],
  ])('%s', (file, isLibrary, name) => expect(packageOf(frame(file, isLibrary))).toBe(name));
});

describe('the call site', () => {
  it('is the innermost frame outside the framework and the collector', () => {
    expect(callSite([COLLECTOR, TORCH, MODEL, OTHER, OWN])).toBe(2);
    expect(callSite([TORCH, OWN, MODEL])).toBe(1);
    expect(callSite([TORCH, COLLECTOR])).toBe(-1);
    expect(callSite([])).toBe(-1);
  });

  it.each(FRAMEWORKS)('of $file', ({ file, isLibrary, isFramework }) => {
    expect(callSite([frame(file, isLibrary)])).toBe(isFramework ? -1 : 0);
  });

  it('stands by itself, with all other libraries folded by package', () => {
    const sections = stackSections([COLLECTOR, MODEL, OTHER, TORCH, TORCH, OTHER, OWN]);
    const shown = sections.map(({ package: name, frames, isOpen, isCallSite }) =>
      [name, frames.length, isOpen && 'open', isCallSite && 'site'].filter(Boolean).join(' '),
    );
    expect(shown).toEqual([
      ...['msprobe 1', 'transformers 1 open site', 'transformers 1', 'torch 2'],
      ...['transformers 1', '1 open'],
    ]);
    expect(sections.flatMap(({ frames }) => frames)).toHaveLength(7);
  });

  it('a stack of one package is not folded away', () => {
    expect(stackSections([TORCH, TORCH])).toMatchObject([{ package: 'torch', isOpen: true }]);
  });
});

it('names a place as people say it', () => {
  expect(placeText(MODEL)).toBe('modeling_llama.py:193');
  expect(placeText(frame('C:\\src\\a.py', false))).toBe('a.py:7');
  expect(placeText(frame('', false))).toBe('');
});

it('links to an editor where the path is whole', () => {
  expect(editorLink(OWN)).toBe('vscode://file/home/me/train.py:7');
  expect(editorLink(frame('C:\\my src\\a.py', false))).toBe('vscode://file/C:/my%20src/a.py:7');
  expect(editorLink(MODEL)).toBe('');
  expect(editorLink(frame('<frozen runpy>', true))).toBe('');
});

it('writes a stack the way a traceback does', () => {
  expect(stackText([OWN])).toBe('File "/home/me/train.py", line 7, in forward\n  x = f(x)');
});

it('writes an entry of unknown shape as it is', () => {
  expect(stackText([create(StackFrameSchema, { source: '<frozen importlib>' })])).toBe(
    '<frozen importlib>',
  );
});
