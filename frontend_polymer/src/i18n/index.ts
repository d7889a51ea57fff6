import { readSetting, writeSetting } from '../data/settings';
import { en, type Texts } from './en';
import { zh } from './zh';

export type { Texts } from './en';

/** A language is a folder beside this file and an entry here, in the order of the switch. */
export const LANGUAGES = { en, zh } satisfies Record<string, Texts>;
export type Language = keyof typeof LANGUAGES;

const SETTING = 'language';

type Listener = (texts: Texts) => void;
const listeners = new Set<Listener>();
let current: Language = 'en';

export function isLanguage(value: unknown): value is Language {
  return typeof value === 'string' && Object.hasOwn(LANGUAGES, value);
}

/** The first of the browser's languages that there is a translation for. */
export function preferredLanguage(browserLanguages: readonly string[]): Language {
  for (const tag of browserLanguages) {
    const primary = tag.toLowerCase().split('-')[0];
    if (isLanguage(primary)) return primary;
  }
  return 'en';
}

/** What was chosen last time, or what the browser asks for. */
export function initialLanguage(): Language {
  const stored = readSetting(SETTING);
  return isLanguage(stored) ? stored : preferredLanguage(navigator.languages);
}

export function texts(): Texts {
  return LANGUAGES[current];
}

/** What a click on the switch leads to. */
export function nextLanguage(): Language {
  const all = Object.keys(LANGUAGES) as Language[];
  return all[(all.indexOf(current) + 1) % all.length]!;
}

export function setLanguage(next: Language): void {
  current = next;
  document.documentElement.lang = texts().language.tag;
  document.title = texts().title;
  for (const listener of listeners) listener(texts());
}

export function rememberLanguage(next: Language): void {
  writeSetting(SETTING, next);
}

/** Calls the listener on every change of language until the returned function is called. */
export function onLanguageChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
