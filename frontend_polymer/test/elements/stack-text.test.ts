import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';

import { stackText, visibleFrames } from '../../src/elements/stack-text';
import { StackFrameSchema } from '../../src/generated/graph_pb';

const frame = (file: string, isLibrary: boolean) =>
  create(StackFrameSchema, { file, line: 7, function: 'forward', source: '  x = f(x)', isLibrary });

const OWN = frame('/home/me/train.py', false);
const LIBRARY = frame('/usr/lib/python3/site-packages/torch/nn/linear.py', true);

describe('visibleFrames', () => {
  it('folds library frames away and keeps the order', () => {
    const other = frame('/home/me/model.py', false);
    expect(visibleFrames([LIBRARY, other, LIBRARY, OWN], false)).toEqual([other, OWN]);
    expect(visibleFrames([LIBRARY, other, LIBRARY, OWN], true)).toHaveLength(4);
  });

  it('shows library frames when there is nothing else', () => {
    expect(visibleFrames([LIBRARY, LIBRARY], false)).toHaveLength(2);
  });
});

it('writes a stack the way a traceback does', () => {
  expect(stackText([OWN])).toBe('File "/home/me/train.py", line 7, in forward\n  x = f(x)');
});

it('writes an entry of unknown shape as it is', () => {
  expect(stackText([create(StackFrameSchema, { source: '<frozen importlib>' })])).toBe(
    '<frozen importlib>',
  );
});
