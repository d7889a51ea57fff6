import { html } from '@polymer/polymer/polymer-element.js';

import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { back } from '../../session/trail';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** The way back from a jump to another step or rank. */
export class GaBack extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          flex: none;
        }
        button {
          border-color: var(--ga-accent);
          color: var(--ga-accent);
        }
      </style>
      <button
        title="[[_title(state.trail, text)]]"
        aria-label="[[_title(state.trail, text)]]"
        on-click="_back"
      >
        <ga-icon name="back"></ga-icon>[[_label(state.trail, text)]]
      </button>`;
  }

  static override get properties() {
    return { ...super.properties, session: Object, state: Object };
  }

  declare session: Session;
  declare state: AppState;

  _label(trail: AppState['trail'], text: Texts): string {
    const last = trail.at(-1);
    return last ? `${text.back.label} · ${text.find.place(last.step, last.rank)}` : '';
  }

  _title(trail: AppState['trail'], text: Texts): string {
    const last = trail.at(-1);
    return last ? text.back.to(last.node || text.back.nothing, last.step, last.rank) : '';
  }

  _back(): void {
    void back(this.session);
  }
}

customElements.define('ga-back', GaBack);
