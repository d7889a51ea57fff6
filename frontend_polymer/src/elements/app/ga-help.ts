import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Texts } from '../../i18n';
import type { GaDialog } from '../parts/ga-dialog';
import '../parts/ga-dialog';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

interface Group {
  readonly title: string;
  readonly entries: readonly { readonly keys: string; readonly text: string }[];
}

/** The list of keys and gestures. */
export class GaHelp extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        .groups {
          columns: 2;
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
          <template is="dom-repeat" items="[[_groups(text)]]">
            <section>
              <h2>[[item.title]]</h2>
              <dl>
                <template is="dom-repeat" items="[[item.entries]]">
                  <dt>[[item.keys]]</dt>
                  <dd>[[item.text]]</dd>
                </template>
              </dl>
            </section>
          </template>
        </div>
      </ga-dialog>`;
  }

  open(): void {
    (this.$['dialog'] as GaDialog).open();
  }

  _groups(text: Texts): Group[] {
    const { help } = text;
    const entry = (keys: string, does: string) => ({ keys, text: does });
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
          entry('i', text.view.unified),
          entry(help.drag, help.pan),
          entry(help.wheel, help.pan),
          entry('A D', help.pan),
          entry(help.ctrlWheel, help.zoom),
          entry('W S, + −', help.zoomKeys),
          entry('F', help.fit),
          entry('0', help.readingSize),
        ],
      },
      {
        title: help.groups.find,
        entries: [
          entry('/', help.search),
          entry('n p  . ,', help.nextPrevious),
          entry('l', text.find.panelHint),
          entry('Esc', help.close2),
        ],
      },
      {
        title: help.groups.fault,
        entries: [
          entry('v V', `${text.verdict.nextSuspect}, ${text.verdict.previousSuspect}`),
          entry('e E', `${text.verdict.nextError}, ${text.verdict.previousError}`),
          entry('g', text.flow.upstream),
          entry('G', text.flow.origin),
          entry('Backspace', text.flow.back),
          entry('t', text.flow.draw),
          entry('c', text.colours.next),
        ],
      },
      {
        title: help.groups.other,
        entries: [
          entry('m', text.shell.matchSelected),
          entry('u, Ctrl+Z', text.match.undoMatch),
          entry('U, Ctrl+Y', text.match.redoMatch),
          entry(`Alt + ${help.drag}`, text.shell.matchDrag),
          entry('[ ]', `${text.shell.previousRank}, ${text.shell.nextRank}`),
          entry('{ }', `${text.shell.previousStep}, ${text.shell.nextStep}`),
          entry('o', help.overview),
          entry(': Ctrl+K', text.shell.palette),
          entry('?', help.help),
        ],
      },
    ];
  }
}

customElements.define('ga-help', GaHelp);
