import { html } from '@polymer/polymer/polymer-element.js';

import { LocalizedElement } from './localized';
import { controls } from './styles';

const SHOWN_MS = 4000;

/** Says for a moment what has just been done. */
export class GaToast extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        div {
          position: fixed;
          z-index: 30;
          left: 50%;
          bottom: 48px;
          transform: translateX(-50%);
          max-width: 80vw;
          padding: 8px 16px;
          border-radius: 8px;
          background: var(--ga-text);
          color: var(--ga-surface);
          box-shadow: var(--ga-shadow);
          overflow-wrap: anywhere;
          pointer-events: none;
        }
        div:empty {
          display: none;
        }
      </style>
      <div id="box" role="status"></div>`;
  }

  private timer = 0;

  say(message: string): void {
    const box = this.$['box'] as HTMLElement;
    box.textContent = message;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => (box.textContent = ''), SHOWN_MS);
  }
}

customElements.define('ga-toast', GaToast);
