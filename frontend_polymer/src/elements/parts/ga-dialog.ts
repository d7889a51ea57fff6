import { html } from '@polymer/polymer/polymer-element.js';

import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';

/** A dialog with a title; Escape, its button and a click beside it close it, and focus returns. */
export class GaDialog extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          width: min(var(--ga-dialog-width, 720px), 90vw);
          max-height: 84vh;
          padding: 0;
          border: 1px solid var(--ga-border);
          border-radius: 12px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        dialog::backdrop {
          background: rgb(0 0 0 / 40%);
        }
        .inside {
          padding: 20px 24px;
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
      <dialog id="dialog" aria-labelledby="title" on-click="_beside">
        <div class="inside">
          <header>
            <h1 id="title">[[heading]]</h1>
            <button
              class="icon plain"
              on-click="close"
              title="[[text.help.close]]"
              aria-label="[[text.help.close]]"
            >
              <ga-icon name="clear"></ga-icon>
            </button>
          </header>
          <slot></slot>
        </div>
      </dialog>`;
  }

  static override get properties() {
    return { ...super.properties, heading: String };
  }

  open(): void {
    if (!this.dialog.open) this.dialog.showModal();
  }

  close(): void {
    this.dialog.close();
  }

  /** What is inside covers the dialog, so only the backdrop hits the dialog itself. */
  _beside(event: Event): void {
    if (event.composedPath()[0] === this.dialog) this.close();
  }

  private get dialog(): HTMLDialogElement {
    return this.$['dialog'] as HTMLDialogElement;
  }
}

customElements.define('ga-dialog', GaDialog);
