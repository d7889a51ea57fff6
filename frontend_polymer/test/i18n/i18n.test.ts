import { describe, expect, it } from 'vitest';

import { LANGUAGES, nameSides, preferredLanguage, texts, type Texts } from '../../src/i18n';
import { en } from '../../src/i18n/en';

const OTHERS: [string, Texts][] = Object.entries(LANGUAGES).filter(([code]) => code !== 'en');

/** Every text with its path; problems are left out, for English shows the server's own words. */
function leaves(texts: object, path = ''): [string, unknown][] {
  return Object.entries(texts)
    .filter(([key]) => key !== 'problems')
    .flatMap(([key, value]) =>
      typeof value === 'object' && value !== null
        ? leaves(value as object, `${path}${key}.`)
        : [[path + key, value] as [string, unknown]],
    );
}

describe('the languages', () => {
  it.each(OTHERS)('%s has the same keys', (_, texts) => {
    expect(leaves(texts).map(([key]) => key)).toEqual(leaves(en).map(([key]) => key));
  });

  it.each(Object.entries(LANGUAGES))(
    '%s is registered under its own code',
    (code, { language }) => {
      expect(language.code).toBe(code);
      expect(Intl.getCanonicalLocales(language.tag)).toEqual([language.tag]);
    },
  );

  it.each(Object.entries(LANGUAGES))('%s leaves no text empty', (_, texts) => {
    for (const [key, value] of leaves(texts)) {
      const text =
        typeof value === 'function' ? (value as (...a: string[]) => string)('7', '9') : value;
      expect(text, key).toMatch(/\S/);
    }
  });

  it.each(OTHERS)('%s uses every parameter of an English text', (_, texts) => {
    const translated = new Map(leaves(texts));
    for (const [key, value] of leaves(en)) {
      if (typeof value !== 'function') continue;
      const write = (texts: unknown) => (texts as (...a: string[]) => string)('<a>', '<b>');
      for (const parameter of ['<a>', '<b>']) {
        expect(write(translated.get(key)).includes(parameter), key).toBe(
          write(value).includes(parameter),
        );
      }
    }
  });
});

it.each([
  [['zh-CN', 'en'], 'zh'],
  [['ZH-tw'], 'zh'],
  [['de-DE', 'en-GB', 'zh'], 'en'],
  [['fr'], 'en'],
  [[], 'en'],
])('chooses a language for %j', (browser, language) => {
  expect(preferredLanguage(browser)).toBe(language);
});
it('calls the sides by their names, and where these are long by their ends', () => {
  const long = 'a name that is longer than its place';
  nameSides({ debug: '$&{debug}', reference: long });
  expect(texts().sides).toEqual({
    debug: '$&{debug}',
    reference: long,
    model: '$&{debug}',
  });
  expect(texts().shortSides).toEqual({ debug: '$&{debug}', reference: 'a name… place' });
  const facts = '[{"code":"import_problem.no_npu_node","name":"x"}]';
  expect(texts().verdict.tell(facts)).toBe('$&{debug} has no node x');
  expect(texts().view.onlyReference).toBe(`only in ${long}`);
  expect(texts().metricHints.max_diff).toContain(`max($&{debug}) − max(${long})`);
  nameSides({ debug: '', reference: '' });
  expect(texts().sides).toEqual(en.roles);
  expect(texts().view.onlyDebug).toBe('only in Debug');
});
