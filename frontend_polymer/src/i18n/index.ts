import { readSetting, writeSetting } from '../data/settings';
import { en, type Texts } from './en';
import { callSides, type SideNames } from './wording';
import { zh } from './zh';

export type { Texts } from './en';

/** A language is a folder beside this file and an entry here, in the order of the switch. */
export const LANGUAGES = { en, zh } satisfies Record<string, Texts>;
export type Language = keyof typeof LANGUAGES;

/** A longer name is shortened where there is little room. */
const SHORT = 12;
const SETTING = 'language';

type Listener = (texts: Texts) => void;
const listeners = new Set<Listener>();
let current: Language = 'en';
let names: SideNames = { debug: '', reference: '' };
let shown: Texts = withNames();

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

/** The words of the language, with the names of the sides that are compared. */
export function texts(): Texts {
  return shown;
}

/** From now on the sides are called so wherever they are spoken of. */
export function nameSides(next: SideNames): void {
  if (next.debug === names.debug && next.reference === names.reference) return;
  names = next;
  callSides(next);
  renew();
}

function renew(): void {
  shown = withNames();
  for (const listener of listeners) listener(shown);
}

function withNames(): Texts {
  const { roles } = LANGUAGES[current];
  const debug = names.debug || roles.debug;
  const reference = names.reference || roles.reference;
  const sides = { debug, reference, model: names.debug || roles.model };
  const shortSides = { debug: shortened(debug), reference: shortened(reference) };
  return { ...filledIn(LANGUAGES[current], sides), sides, shortSides };
}

/** A long name by its ends, which tell runs of one series apart. */
function shortened(name: string): string {
  return name.length > SHORT ? `${name.slice(0, SHORT / 2)}…${name.slice(-SHORT / 2)}` : name;
}

/** Every text with the names in place of `{debug}` and `{reference}`. */
function filledIn<T>(part: T, sides: SideNames): T {
  if (typeof part === 'string') {
    if (!part.includes('{')) return part;
    return part.replace(/\{(debug|reference)\}/g, (_, side: keyof SideNames) => sides[side]) as T;
  }
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
  const entries = Object.entries(part as Record<string, unknown>).map(
    ([key, value]) => [key, filledIn(value, sides)] as const,
  );
  return Object.fromEntries(entries) as T;
}

/** What a click on the switch leads to. */
export function nextLanguage(): Language {
  const all = Object.keys(LANGUAGES) as Language[];
  return all[(all.indexOf(current) + 1) % all.length]!;
}

export function setLanguage(next: Language): void {
  current = next;
  const { language, title } = LANGUAGES[next];
  document.documentElement.lang = language.tag;
  document.title = title;
  renew();
}

export function rememberLanguage(next: Language): void {
  writeSetting(SETTING, next);
}

/** Calls the listener on every change of language and of the sides' names until the returned function is called. */
export function onLanguageChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
