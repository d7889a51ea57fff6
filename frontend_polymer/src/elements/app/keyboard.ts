// Which command a key calls.

import type { Command } from './commands';
import { keyOf } from './window-words';

/** Whether a key opens the palette wherever the focus is. */
function isPaletteKey({ ctrlKey, metaKey, key }: KeyboardEvent): boolean {
  return (ctrlKey || metaKey) && key.toLowerCase() === 'k';
}

/** The command of a key; none in a field to type in or in a dialog, which have keys of their own. */
export function commandOf(event: KeyboardEvent, commands: readonly Command[]): Command | undefined {
  const path = event.composedPath();
  const [target] = path;
  if (path.some((part) => part instanceof HTMLDialogElement)) return undefined;
  if (isPaletteKey(event)) return commands.find(({ keys }) => keys.includes(':'));
  const key = keyOf(event);
  const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  return isTyping || key === '' ? undefined : commands.find(({ keys }) => keys.includes(key));
}
