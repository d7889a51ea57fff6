/**
 * Shows a value in a field or list. One that is there already is left alone: whenever a value is set,
 * even the same, browsers look through all fields of the page for what they might fill in.
 */
export function setValue(control: HTMLInputElement | HTMLSelectElement, value: string): void {
  if (control.value !== value) control.value = value;
}
