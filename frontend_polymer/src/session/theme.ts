import { readSetting, writeSetting } from '../data/settings';
import { hostDocument } from './window-title';

export type Theme = 'light' | 'dark';
export type ThemeChoice = 'auto' | Theme;

const SETTING = 'theme';
const DARK = '(prefers-color-scheme: dark)';
const FORCED = '(forced-colors: active)';

export function storedThemeChoice(): ThemeChoice {
  const stored = readSetting(SETTING);
  return stored === 'light' || stored === 'dark' ? stored : 'auto';
}

export function rememberThemeChoice(choice: ThemeChoice): void {
  writeSetting(SETTING, choice);
}

/**
 * Where the system forces its colours, the theme that is most like them, whatever was chosen: a
 * canvas keeps its own, which must be readable beside them.
 */
export function forcedTheme(): Theme | null {
  if (!matchMedia(FORCED).matches) return null;
  return matchMedia(DARK).matches ? 'dark' : 'light';
}

/**
 * TensorBoard marks dark mode with a class on the body around our frame. A page that is not inside
 * TensorBoard, or may not look outside, follows the system.
 */
export function hostTheme(): Theme {
  const body = hostDocument()?.body;
  if (body) return body.classList.contains('dark-mode') ? 'dark' : 'light';
  return matchMedia(DARK).matches ? 'dark' : 'light';
}

/** Calls the listener whenever the surroundings turn dark or light; returns how to stop it. */
export function onHostThemeChange(listener: () => void): () => void {
  const queries = [DARK, FORCED].map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener('change', listener);
  const observer = new MutationObserver(listener);
  const body = hostDocument()?.body;
  if (body) observer.observe(body, { attributes: true, attributeFilter: ['class'] });
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener('change', listener);
  };
}
