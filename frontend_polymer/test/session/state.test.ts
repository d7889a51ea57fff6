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

  it('tells several changes as one when they belong together', () => {
    const store = new Store({ a: 1, b: 'x' });
    const seen: unknown[] = [];
    store.subscribe((state, previous) => seen.push([state, previous]));
    const result = store.together(() => {
      store.update({ a: 2 });
      store.together(() => store.update({ b: 'y' }));
      expect(store.state).toEqual({ a: 2, b: 'y' });
      return 'done';
    });
    expect(result).toBe('done');
    expect(seen).toEqual([
      [
        { a: 2, b: 'y' },
        { a: 1, b: 'x' },
      ],
    ]);
    store.together(() => undefined);
    expect(seen.length).toBe(1);
  });

  it('tells what was changed before an error', () => {
    const store = new Store({ a: 1 });
    const seen: number[] = [];
    store.subscribe(({ a }) => seen.push(a));
    const work = () => {
      store.update({ a: 2 });
      throw new Error('no');
    };
    expect(() => store.together(work)).toThrow('no');
    store.update({ a: 3 });
    expect(seen).toEqual([2, 3]);
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
