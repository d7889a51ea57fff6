import { describe, expect, it } from 'vitest';

import { Store } from '../../src/session/state';

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
