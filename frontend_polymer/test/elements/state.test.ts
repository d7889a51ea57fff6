import { describe, expect, it } from 'vitest';

import { Side } from '../../src/generated/graph_pb';
import { fromHash, INITIAL_VIEW, Store, toHash } from '../../src/state';

describe('the address fragment', () => {
  it('brings back what was put in', () => {
    const view = {
      file: 'runs/a & b/比较.vis.db',
      step: 12,
      rank: 3,
      micro: 1,
      side: Side.BENCH,
      node: 'Module.model.layers[0].a-b#c%d.Linear.forward.0',
    };
    expect(fromHash(toHash(view))).toEqual(view);
  });

  it('brings back the initial view', () => {
    expect(fromHash(toHash(INITIAL_VIEW))).toEqual(INITIAL_VIEW);
  });

  it.each(['', '#', '#step=x&rank=-1&micro=1e9&side=left', '#%E0%A4%A', '#step=99999999999999'])(
    'reads %s as the initial view',
    (hash) => {
      expect(fromHash(hash)).toEqual(INITIAL_VIEW);
    },
  );
});

describe('Store', () => {
  it('tells listeners the state before and after a change', () => {
    const store = new Store({ a: 1, b: 'x' });
    const seen: unknown[] = [];
    store.subscribe((state, previous) => seen.push([state, previous]));
    store.update({ a: 2 });
    expect(seen).toEqual([
      [
        { a: 2, b: 'x' },
        { a: 1, b: 'x' },
      ],
    ]);
  });

  it('is silent when nothing changes and after unsubscribing', () => {
    const store = new Store({ a: 1 });
    let calls = 0;
    const stop = store.subscribe(() => calls++);
    store.update({ a: 1 });
    stop();
    store.update({ a: 2 });
    expect(calls).toBe(0);
    expect(store.state).toEqual({ a: 2 });
  });
});
