import { describe, expect, it } from 'vitest';

import { pressKey, type KeyTarget } from '../../../src/canvas/keys';
import { keyGroups } from '../../../src/elements/app/key-groups';
import { texts } from '../../../src/i18n';
import { allCommands } from './all-commands';

/** Whether the canvas takes this key for itself. */
function isOfCanvas(key: string): boolean {
  const target = new Proxy({}, { get: () => () => undefined }) as KeyTarget;
  return pressKey({ key } as KeyboardEvent, target);
}

describe('keys of commands', () => {
  it('are none that the graph has another use for', () => {
    const keys = allCommands().flatMap((command) => command.keys);
    expect(keys.length).toBeGreaterThan(20);
    expect(keys.filter(isOfCanvas)).toEqual([]);
  });

  it('mean one thing each', () => {
    const keys = allCommands().flatMap((command) => command.keys);
    expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
  });

  it('stand in the documentation, which this writes when run with --update', async () => {
    const lines = keyGroups(allCommands(), texts()).flatMap(({ title, entries }) => [
      `\n## ${title}\n\n| key | what it does |\n|---|---|`,
      ...entries.map(
        ({ keys, text }) =>
          `| ${keys
            .trim()
            .split(/ {2}/)
            .map((key) => `\`${key}\``)
            .join(' ')} | ${text} |`,
      ),
    ]);
    const head =
      '# Keys of the viewer\n\nMade of the commands by their own test. `?` shows those of what is open.\n';
    await expect(`${head}${lines.join('\n')}\n`).toMatchFileSnapshot(
      '../../../../docs/design/keys.md',
    );
  });
});
