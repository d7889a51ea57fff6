import { html } from '@polymer/polymer/polymer-element.js';

import { copyText } from './copy-text';
import './ga-icon';
import type { Texts } from '../../i18n';
import { LocalizedElement } from './localized';
import { controls } from './styles';

const FEEDBACK_MS = 1500;

/** Copies a text and says whether that worked. */
export class GaCopy extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: inline-flex;
          position: relative;
          flex: none;
        }
        [role='status'] {
          position: absolute;
          z-index: 5;
          left: 32px;
          top: 2px;
          padding: 2px 8px;
          border-radius: 4px;
          background: var(--ga-text);
          color: var(--ga-surface);
          font-weight: normal;
          white-space: nowrap;
        }
        [role='status']:empty {
          display: none;
        }
      </style>
      <button class="icon plain" on-click="_copy" title="[[label]]" aria-label="[[label]]">
        <ga-icon name="copy"></ga-icon>
      </button>
      <span role="status">[[_feedback(outcome, text)]]</span>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      value: String,
      label: String,
      outcome: { type: String, value: '' },
    };
  }

  declare value: string;
  declare label: string;
  declare outcome: '' | 'copied' | 'copyFailed';

  async _copy(): Promise<void> {
    this.outcome = (await copyText(this.value)) ? 'copied' : 'copyFailed';
    setTimeout(() => (this.outcome = ''), FEEDBACK_MS);
  }

  _feedback(outcome: GaCopy['outcome'], text: Texts): string {
    return outcome === '' ? '' : text.details[outcome];
  }
}

customElements.define('ga-copy', GaCopy);
