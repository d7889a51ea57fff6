// What the window around the viewer hears and says.

import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import { fileTitle } from '../../session/titles';

/** What is shown, for those who have many windows. */
export function shownPlace(state: AppState, text: Texts): string {
  const { view } = state;
  const file = fileOf(state);
  const title = file ? fileTitle(file) : view.file;
  return view.page === 'graph' ? text.shell.imageTitle(title, view.step, view.rank) : title;
}

/** A key with Ctrl or Cmd is ours where every program has it; empty where it is the browser's. */
export function keyOf({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): string {
  if (altKey) return '';
  if (!ctrlKey && !metaKey) return key;
  const letter = key.toLowerCase();
  if (letter === 'z') return shiftKey ? 'U' : 'u';
  return letter === 'y' ? 'U' : '';
}
