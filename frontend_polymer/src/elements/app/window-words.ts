// What the window around the viewer hears and says.

import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';

/** What is shown, for those who have many windows. */
export function shownPlace({ view }: AppState, text: Texts): string {
  return view.page === 'graph' ? text.shell.imageTitle(view.file, view.step, view.rank) : view.file;
}

/** A key with Ctrl or Cmd is ours where every program has it; empty where it is the browser's. */
export function keyOf({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): string {
  if (altKey) return '';
  if (!ctrlKey && !metaKey) return key;
  const letter = key.toLowerCase();
  if (letter === 'z') return shiftKey ? 'U' : 'u';
  return letter === 'y' ? 'U' : '';
}
