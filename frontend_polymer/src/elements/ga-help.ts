import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Texts } from '../i18n';
import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';

interface Group {
  readonly title: string;
  readonly entries: readonly { readonly keys: string; readonly text: string }[];
}

/** The list of keys and gestures. */
export class GaHelp extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          width: min(720px, 90vw);
          padding: 20px 24px;
          border: 1px solid var(--ga-border);
          border-radius: 12px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        dialog::backdrop {
          background: rgb(0 0 0 / 40%);
        }
        header {
          display: flex;
          align-items: center;
          justify-content: space-between;
        }
        h1 {
          font: 600 16px/24px var(--ga-font);
          margin: 0;
        }
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
      <dialog id="dialog" aria-labelledby="title">
        <header>
          <h1 id="title">[[text.help.title]]</h1>
          <button
            class="icon plain"
            on-click="close"
            title="[[text.help.close]]"
            aria-label="[[text.help.close]]"
          >
            <ga-icon name="clear"></ga-icon>
          </button>
        </header>
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
      </dialog>`;
  }

  open(): void {
    const dialog = this.$['dialog'] as HTMLDialogElement;
    if (!dialog.open) dialog.showModal();
  }

  close(): void {
    (this.$['dialog'] as HTMLDialogElement).close();
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
      { title: help.groups.other, entries: [entry('o', help.overview), entry('?', help.help)] },
    ];
  }
}

customElements.define('ga-help', GaHelp);
