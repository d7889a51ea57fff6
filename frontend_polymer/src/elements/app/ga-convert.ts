import { html } from '@polymer/polymer/polymer-element.js';

import { change } from '../../data/api';
import { asProblem, type ProblemError } from '../../data/problem';
import type { Texts } from '../../i18n';
import type { Session } from '../../session/session';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { problemWording } from '../parts/words';

/** One click that turns a file of the reference tool into one that can be shown, and shows it. */
export class GaConvert extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
          margin-top: 8px;
        }
        :host([hidden]) {
          display: none;
        }
        p {
          margin: 8px 0 0;
          overflow-wrap: anywhere;
        }
      </style>
      <button id="convert" class="primary" disabled="[[busy]]" on-click="_convert">
        [[_label(busy, text)]]
      </button>
      <p class="muted">[[text.notices.convertHint]]</p>
      <p role="alert" hidden$="[[!refusal]]">[[_refusal(refusal, file, text)]]</p>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      file: { type: String, observer: '_fileChanged' },
      busy: { type: Boolean, value: false },
      refusal: { type: Object, value: null },
    };
  }

  declare session: Session;
  declare file: string;
  declare busy: boolean;
  declare refusal: ProblemError | null;

  _fileChanged(): void {
    this.refusal = null;
  }

  _label(busy: boolean, text: Texts): string {
    return busy ? text.notices.converting : text.notices.convert;
  }

  _refusal(refusal: ProblemError | null, file: string, text: Texts): string {
    if (!refusal) return '';
    const { message, remedy } = problemWording(refusal, file, text);
    return `${message} ${remedy}`;
  }

  async _convert(): Promise<void> {
    const { session, file } = this;
    this.busy = true;
    this.refusal = null;
    try {
      const { file: made } = await change(session.fetch, 'convert', { file });
      // Who has gone elsewhere meanwhile is left there; the list has the new file then.
      const isHere = session.state.view.file === file;
      await session.refresh(
        isHere ? { ...session.state.view, file: made, page: 'auto' } : session.state.view,
      );
    } catch (error) {
      this.refusal = asProblem(error);
    } finally {
      this.busy = false;
    }
  }
}

customElements.define('ga-convert', GaConvert);
