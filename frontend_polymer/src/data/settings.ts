// What the viewer remembers between visits: language, theme, sizes of panels.

const PREFIX = 'graph_ascend.';

/** Browsers may forbid storage to frames; a setting is then simply not remembered. */
export function readSetting(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function writeSetting(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    return;
  }
}
