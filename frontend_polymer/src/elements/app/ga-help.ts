import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Texts } from '../../i18n';
import type { GaDialog } from '../parts/ga-dialog';
import '../parts/ga-dialog';
import { LocalizedElement } from '../parts/localized';
import type { Command } from './commands';
import { keyGroups, type Group } from './key-groups';
import { controls } from '../parts/styles';

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
    return keyGroups(commands, text);
  }
}

customElements.define('ga-help', GaHelp);
