import { readSetting, writeSetting } from '../data/settings';
import { hostDocument } from './window-title';

export type Theme = 'light' | 'dark';
export type ThemeChoice = 'auto' | Theme;

const SETTING = 'theme';

export function storedThemeChoice(): ThemeChoice {
  const stored = readSetting(SETTING);
  return stored === 'light' || stored === 'dark' ? stored : 'auto';
}

export function rememberThemeChoice(choice: ThemeChoice): void {
  writeSetting(SETTING, choice);
}

/**
 * TensorBoard marks dark mode with a class on the body around our frame. A page that is not inside
 * TensorBoard, or may not look outside, follows the system.
 */
export function hostTheme(): Theme {
  const body = hostDocument()?.body;
  if (body) return body.classList.contains('dark-mode') ? 'dark' : 'light';
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** Calls the listener whenever the surroundings turn dark or light; returns how to stop it. */
export function onHostThemeChange(listener: () => void): () => void {
  const body = hostDocument()?.body;
  if (body) {
    const observer = new MutationObserver(listener);
    observer.observe(body, { attributes: true, attributeFilter: ['class'] });
    return () => observer.disconnect();
  }
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', listener);
  return () => query.removeEventListener('change', listener);
}
