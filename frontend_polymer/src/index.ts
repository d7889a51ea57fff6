/** TensorBoard loads this module in the plugin's iframe and calls `render()`. */
export async function render(): Promise<void> {
  await import('./elements/app/ga-app');
  document.body.style.margin = '0';
  document.body.append(document.createElement('ga-app'));
}
