import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Texts } from '../../i18n';
import type { GaDialog } from '../parts/ga-dialog';
import '../parts/ga-dialog';
import { LocalizedElement } from '../parts/localized';
import { KEY_GROUPS, type Command, type KeyGroup } from './commands';
import { controls } from '../parts/styles';

interface Entry {
  readonly keys: string;
  readonly text: string;
  /** The first key of a command; empty for gestures and what the graph does itself. */
  readonly command: string;
}

interface Group {
  readonly title: string;
  readonly entries: readonly Entry[];
}

/** The list of keys and gestures. */
export class GaHelp extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        ga-dialog {
          --ga-dialog-width: 1160px;
        }
        .groups {
          columns: 3 300px;
          column-gap: 32px;
        }
        section {
          break-inside: avoid;
          padding-bottom: 8px;
        }
        h2 {
          font: 600 13px/20px var(--ga-font);
          color: var(--ga-muted);
          margin: 8px 0 4px;
        }
        dl {
          display: grid;
          grid-template-columns: 120px 1fr;
          gap: 4px 12px;
          margin: 0;
        }
        dt {
          font-family: var(--ga-mono);
          font-size: 12px;
        }
        dd {
          margin: 0;
        }
      </style>
      <ga-dialog id="dialog" heading="[[text.help.title]]">
        <div class="groups">
          <template is="dom-repeat" items="[[_groups(commands, text)]]">
            <section>
              <h2>[[item.title]]</h2>
              <dl>
                <template is="dom-repeat" items="[[item.entries]]">
                  <dt data-key$="[[item.command]]">[[item.keys]]</dt>
                  <dd>[[item.text]]</dd>
                </template>
              </dl>
            </section>
          </template>
        </div>
      </ga-dialog>`;
  }

  static override get properties() {
    return { ...super.properties, commands: { type: Array, value: () => [] } };
  }

  declare commands: readonly Command[];

  /** Lists gestures, the keys of the graph, and those of all commands. */
  open(commands: readonly Command[]): void {
    this.commands = commands;
    (this.$['dialog'] as GaDialog).open();
  }

  _groups(commands: readonly Command[], text: Texts): Group[] {
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
}

/** Keys of other programs that do the same. */
const OTHERS: Readonly<Record<string, string>> = { ':': 'Ctrl+K', u: 'Ctrl+Z', U: 'Ctrl+Y' };

customElements.define('ga-help', GaHelp);
