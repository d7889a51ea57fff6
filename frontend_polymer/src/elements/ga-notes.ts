import { html } from '@polymer/polymer/polymer-element.js';

import type { DatabaseFile } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { formatCount } from './format';
import './ga-file-facts';
import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';

/** What is compared with what, since when, and what the build had to say about it. */
export class GaNotes extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          width: min(800px, 90vw);
          max-height: 80vh;
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
      </style>
      <button id="open" class="plain" on-click="open" hidden$="[[!file]]">
        <ga-icon name="info"></ga-icon>[[_label(file, text)]]
      </button>
      <dialog id="dialog" aria-labelledby="title">
        <header>
          <h1 id="title">[[text.notes.about]]</h1>
          <button
            class="icon plain"
            on-click="close"
            title="[[text.help.close]]"
            aria-label="[[text.help.close]]"
          >
            <ga-icon name="clear"></ga-icon>
          </button>
        </header>
        <ga-file-facts file="[[file]]"></ga-file-facts>
      </dialog>`;
  }

  static override get properties() {
    return { ...super.properties, file: Object };
  }

  declare file: DatabaseFile | undefined;

  open(): void {
    (this.$['dialog'] as HTMLDialogElement).showModal();
  }

  close(): void {
    (this.$['dialog'] as HTMLDialogElement).close();
  }

  _label(file: DatabaseFile | undefined, text: Texts): string {
    const count = file?.diagnostics.length ?? 0;
    return count === 0 ? text.notes.about : text.notes.label(formatCount(count));
  }
}

customElements.define('ga-notes', GaNotes);
