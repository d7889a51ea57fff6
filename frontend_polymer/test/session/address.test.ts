import { describe, expect, it } from 'vitest';

import { fromFragment, notUnderstood, toFragment } from '../../src/session/address';
import { Grade, Overflow, Side } from '../../src/generated/graph_pb';
import { INITIAL_VIEW } from '../../src/session/state';

describe('the address fragment', () => {
  it('brings back what was put in', () => {
    const view = {
      page: 'graph' as const,
      file: 'runs/a & b/比较.vis.db',
      step: 12,
      rank: 3,
      micro: 1,
      side: Side.BENCH,
      node: 'Module.model.layers[0].a-b#c%d.Linear.forward.0',
      find: {
        text: '(a|b) & c',
        isPattern: true,
        side: Side.BENCH,
        grades: [Grade.SLIGHT, Grade.UNMATCHED],
        overflows: [Overflow.HIGH],
        reasons: ['other_type', 'no_such_name'],
        operator: 'softmax',
        code: 'model.py:7',
        dtype: 'float32',
        shape: '[2, 3]',
        below: 'model.layers.1',
        direction: 'backward',
        input_dtype: 'bfloat16',
        output_dtype: 'float16',
        scope: 'file' as const,
        order: 'severity' as const,
      },
      sync: false,
      colours: 'overflow' as const,
      powers: true,
      trail: true,
      automatic: false,
      trend: 'run=a.trend.db&statistic=norm&steps=2-8',
      tab: 'stack',
      unified: true,
      only: Side.NPU,
      look: {
        open: ['AbC.D-_', 'x'] as const,
        zoom: 0.37,
        top: -0.4,
        left: 12,
        anchor: { side: Side.BENCH, index: 12345 },
        foldLayers: false,
      },
    };
    expect(fromFragment(toFragment(view))).toEqual(view);
  });

  it('brings back the initial view', () => {
    expect(fromFragment(toFragment(INITIAL_VIEW))).toEqual(INITIAL_VIEW);
  });

  it('brings back the overview', () => {
    const view = { ...INITIAL_VIEW, page: 'overview' as const, file: 'a.vis.db' };
    expect(fromFragment(toFragment(view))).toEqual(view);
  });

  it.each(['step=0', 'rank=0', 'node=Module.a'])(
    'takes a link with %s as one to a graph',
    (part) => {
      expect(fromFragment(`#graph_ascend&p.graph_ascend.${part}`).page).toBe('graph');
    },
  );

  it.each([
    '',
    '#',
    '#graph_ascend',
    '#graph_ascend&p.graph_ascend.step=x&p.graph_ascend.rank=-1&p.graph_ascend.micro=1e9',
    '#graph_ascend&p.graph_ascend.side=left&p.graph_ascend.step=99999999999999',
    '#graph_ascend&%E0%A4%A',
    '#scalars&p.scalars.step=3&step=4',
  ])('reads %s as the initial view', (hash) => {
    expect(fromFragment(hash)).toEqual(INITIAL_VIEW);
  });

  it('keeps one text when both sides have the same unfolded', () => {
    const look = { open: ['AB', 'AB'] as const, zoom: 1, top: 3, left: 0 };
    const fragment = toFragment({ ...INITIAL_VIEW, page: 'graph', look });
    expect(fragment).toContain('open=AB&');
    expect(fromFragment(fragment).look).toEqual(look);
  });

  it('holds the short form of what is unfolded', () => {
    const look = {
      open: ['long', 'long'],
      openInView: ['B', 'B'],
      zoom: 1,
      top: 0,
      left: 0,
    } as const;
    const fragment = toFragment({ ...INITIAL_VIEW, page: 'graph', look });
    expect(fromFragment(fragment).look?.open).toEqual(['B', 'B']);
  });

  it.each([
    ['step=x', ['step=x']],
    ['at=1_2', ['at=1_2']],
    ['at=100_0_0_n99999999999', ['at=100_0_0_n99999999999']],
    ['grades=1,99', ['grades=1,99']],
    ['only=left', ['only=left']],
    ['later=1', ['later=1']],
    ['file=a.vis.db&p.graph_ascend.step=1&p.graph_ascend.rank=2', []],
    ['sync=1', []],
  ])('says that of %s it does not understand %j', (part, expected) => {
    expect(notUnderstood(`#graph_ascend&p.graph_ascend.${part}`)).toEqual(expected);
  });

  it('understands all that it writes', () => {
    expect(
      notUnderstood(toFragment({ ...INITIAL_VIEW, page: 'graph', node: 'a', file: 'b' })),
    ).toEqual([]);
    expect(notUnderstood('#graph_ascend&p.other.x=1')).toEqual([]);
  });
});
