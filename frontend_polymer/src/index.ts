import { askAhead } from './data/ahead';

/** TensorBoard loads this module in the plugin's iframe and calls `render()`. */
export async function render(): Promise<void> {
  const fetch = askAhead(addressed());
  await import('./elements/app/ga-app');
  document.body.style.margin = '0';
  document.body.append(Object.assign(document.createElement('ga-app'), { fetch }));
}

/** What follows the address that the user sees, ours where another origin embeds us. */
function addressed(): string {
  try {
    return window.parent.location.hash;
  } catch {
    return window.location.hash;
  }
}
