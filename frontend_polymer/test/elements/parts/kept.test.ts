import { expect, test } from 'vitest';
import { kept } from '../../../src/elements/parts/kept';
import { setValue } from '../../../src/elements/parts/set-value';

test('an answer stays the same object until something it goes by is another', () => {
  const asked = kept(
    (state: { hits: object | null; selected: number }, text: string) => [state.hits, text],
    (state, text) => ({ of: state.hits, text }),
  );
  const hits = {};
  const first = asked({ hits, selected: 1 }, 'a');
  expect(first).toEqual({ of: hits, text: 'a' });
  expect(asked({ hits, selected: 2 }, 'a')).toBe(first);
  expect(asked({ hits, selected: 2 }, 'b')).toEqual({ of: hits, text: 'b' });
  expect(asked({ hits: null, selected: 2 }, 'b')).toEqual({ of: null, text: 'b' });
  expect(asked({ hits: null, selected: 2 }, 'b').of).toBeNull();
});

test('a value that a field shows already is not set again', () => {
  const set: string[] = [];
  const field = {
    get value() {
      return set.at(-1) ?? '';
    },
    set value(value: string) {
      set.push(value);
    },
  } as HTMLInputElement;
  for (const value of ['a', 'a', 'b', 'b']) setValue(field, value);
  expect(set).toEqual(['a', 'b']);
});
