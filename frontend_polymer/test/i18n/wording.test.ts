import { readFileSync } from 'node:fs';

import { afterEach, describe, expect, it } from 'vitest';

import { factsOf, type Fact } from '../../src/data/facts';
import { callSides, word, type Wordings } from '../../src/i18n/wording';

// What tests/builder/facts/test_wording.py holds msprobe_builder/facts to.
const SHARED = JSON.parse(readFileSync('../tests/data/wordings.json', 'utf8')) as {
  wordings: Wordings;
  cases: { said: Fact[]; text: string; names?: [string, string] }[];
  texts: string[];
};

describe('facts', () => {
  afterEach(() => callSides({ debug: '', reference: '' }));

  it.each(SHARED.cases)(
    'are worded as by the command line: $text',
    ({ said, text, names = ['', ''] }) => {
      callSides({ debug: names[0], reference: names[1] });
      expect(word(said, SHARED.wordings)).toBe(text);
      if (said.length > 0) expect(factsOf(JSON.stringify(said))).toEqual(said);
    },
  );

  it.each(SHARED.texts)('are a text as it stands where they are none: %s', (text) => {
    expect(factsOf(text)).toEqual([{ code: 'text', text }]);
    expect(word(factsOf(text), SHARED.wordings)).toBe(text);
  });

  it('say nothing where there are none', () => {
    expect(word(factsOf(''), SHARED.wordings)).toBe('');
    expect(factsOf('[]')).toEqual([]);
  });
});
