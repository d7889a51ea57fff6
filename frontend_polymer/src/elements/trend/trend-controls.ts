import type { TrendGraph } from '../../generated/graph_pb';
import { create } from '../parts/create';

/** Offers other choices; what was chosen stays if it is among them. */
export function fill(
  control: HTMLElement,
  choices: readonly (readonly [value: string, words: string])[],
): void {
  const select = control as HTMLSelectElement;
  const before = select.value;
  select.replaceChildren(...choices.map(([value, words]) => new Option(words, value)));
  if (choices.some(([value]) => value === before)) select.value = before;
}

/** Chooses what a link asks for, if it can be chosen. */
export function prefer(control: HTMLElement, value: string | undefined): void {
  if (value === undefined) return;
  if (control instanceof HTMLInputElement) control.value = value;
  else fillIn(control as HTMLSelectElement, value);
}

function fillIn(select: HTMLSelectElement, value: string): void {
  if ([...select.options].some((one) => one.value === value)) select.value = value;
}

/** A button that leads to a graph. */
export function linkTo({ file, node }: TrendGraph, go: () => void): HTMLButtonElement {
  const button = create('button', '', node ? `${file} · ${node}` : file);
  button.addEventListener('click', go);
  return button;
}

/** The cell that an arrow key leads to; null for every other key. */
export function moved(key: string, row: number, column: number): [number, number] | null {
  const moves: Record<string, [number, number]> = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
  };
  return moves[key] ?? null;
}
