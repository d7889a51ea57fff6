import { describe, expect, it } from 'vitest';

import { preferredLanguage } from '../../src/i18n';
import { en } from '../../src/i18n/en';
import { zh } from '../../src/i18n/zh';

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
  it('have the same keys', () => {
    expect(leaves(zh).map(([key]) => key)).toEqual(leaves(en).map(([key]) => key));
  });

  it.each([
    ['en', en],
    ['zh', zh],
  ])('%s leaves no text empty', (_, texts) => {
    for (const [key, value] of leaves(texts)) {
      const text =
        typeof value === 'function' ? (value as (...a: string[]) => string)('7', '9') : value;
      expect(text, key).toMatch(/\S/);
    }
  });

  it('use every parameter of a text in both languages', () => {
    const chinese = new Map(leaves(zh));
    for (const [key, value] of leaves(en)) {
      if (typeof value !== 'function') continue;
      const write = (texts: unknown) => (texts as (...a: string[]) => string)('<a>', '<b>');
      for (const parameter of ['<a>', '<b>']) {
        expect(write(chinese.get(key)).includes(parameter), key).toBe(
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
