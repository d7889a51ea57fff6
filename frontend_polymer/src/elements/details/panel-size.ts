// Where the panel of details stands and how large it is, which is remembered.

import { readSetting, writeSetting } from '../../data/settings';

const [HEIGHT, WIDTH, DOCK] = ['details.height', 'details.width', 'details.dock'] as const;
const LOWEST = 120;
const NARROWEST = 320;
/** As detail-styles.ts has it. */
const NARROW = 1000;
const LARGEST = 0.7; // of the window

/** The graph has the larger part of the window. */
export function storedHeight(): number {
  const stored = Number(readSetting(HEIGHT));
  return stored >= LOWEST ? stored : Math.max(196, Math.round(window.innerHeight * 0.18));
}

export function storedWidth(): number {
  const stored = Number(readSetting(WIDTH));
  return stored >= NARROWEST ? stored : Math.max(420, Math.round(window.innerWidth * 0.36));
}

export function storedDock(): boolean {
  return readSetting(DOCK) === 'right';
}

export function rememberHeight(size: number): number {
  return remember(HEIGHT, Math.max(LOWEST, Math.min(size, window.innerHeight * LARGEST)));
}

export function rememberWidth(size: number): number {
  return remember(WIDTH, Math.max(NARROWEST, Math.min(size, window.innerWidth * LARGEST)));
}

export function rememberDock(isRight: boolean): void {
  writeSetting(DOCK, isRight ? 'right' : 'below');
}

/** In a narrow window it stands below, whatever was chosen. */
export function isRight(dock: boolean): boolean {
  return dock && window.innerWidth > NARROW;
}

function remember(setting: string, size: number): number {
  const rounded = Math.round(size);
  writeSetting(setting, String(rounded));
  return rounded;
}
