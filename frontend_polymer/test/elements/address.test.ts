import { describe, expect, it } from 'vitest';

import { fromFragment, toFragment } from '../../src/address';
import { Grade, Overflow, Side } from '../../src/generated/graph_pb';
import { INITIAL_VIEW } from '../../src/state';

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
        scope: 'file' as const,
        order: 'severity' as const,
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
});
