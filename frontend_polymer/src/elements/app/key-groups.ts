import type { Texts } from '../../i18n';
import { KEY_GROUPS, type Command, type KeyGroup } from './commands';

export interface Entry {
  readonly keys: string;
  readonly text: string;
  /** The first key of a command; empty for gestures and what the graph does itself. */
  readonly command: string;
}
export interface Group {
  readonly title: string;
  readonly entries: readonly Entry[];
}

/** Gestures, the keys of the graph, and those of all commands. */
export function keyGroups(commands: readonly Command[], text: Texts): Group[] {
  const { help } = text;
  const entry = (keys: string, does: string): Entry => ({ keys, text: does, command: '' });
  const ofCommands = (group: KeyGroup) =>
    commands
      .filter((command) => command.group === group && command.keys.length > 0)
      .map(({ keys, name }) => ({
        keys: keys.map((key) => (OTHERS[key] ? `${key}, ${OTHERS[key]}` : key)).join('  '),
        text: name,
        command: keys[0]!,
      }));
  const extra: Partial<Record<KeyGroup, Entry[]>> = {
    find: [entry('Esc', help.close2)],
    match: [entry(`Alt + ${help.drag}`, text.shell.matchDrag)],
  };
  return [
    {
      title: help.groups.open,
      entries: [
        entry(help.click, help.selectNode),
        entry(help.doubleClick, help.toggle),
        entry('Enter', help.toggle),
      ],
    },
    {
      title: help.groups.move,
      entries: [
        entry('↑ ↓ ← →', help.walk),
        entry('Home End', help.ends),
        entry('X', help.cross),
        entry(help.drag, help.pan),
        entry(help.wheel, help.pan),
        entry('A D', help.pan),
        entry(help.ctrlWheel, help.zoom),
        entry('W S, + −', help.zoomKeys),
        entry('F', help.fit),
        entry('0', help.readingSize),
      ],
    },
    ...KEY_GROUPS.map((group) => ({
      title: help.groups[group],
      entries: [...ofCommands(group), ...(extra[group] ?? [])],
    })),
  ].filter(({ entries }) => entries.length > 0);
}

/** Keys of other programs that do the same. */
const OTHERS: Readonly<Record<string, string>> = { ':': 'Ctrl+K', u: 'Ctrl+Z', U: 'Ctrl+Y' };
