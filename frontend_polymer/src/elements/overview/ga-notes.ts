import { html } from '@polymer/polymer/polymer-element.js';

import type { DatabaseFile } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { formatCount } from '../parts/format';
import type { GaDialog } from '../parts/ga-dialog';
import '../parts/ga-dialog';
import './ga-file-facts';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** What is compared with what, since when, and what the build had to say about it. */
export class GaNotes extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        ga-dialog {
          --ga-dialog-width: 800px;
        }
        @media (max-width: 1600px) {
          .label {
            display: none;
          }
          #open {
            padding: 0 6px;
          }
        }
      </style>
      <button
        id="open"
        class="plain"
        title="[[_label(file, text)]]"
        aria-label="[[_label(file, text)]]"
        on-click="open"
        hidden$="[[!file]]"
      >
        <ga-icon name="info"></ga-icon><span class="label">[[_label(file, text)]]</span>
      </button>
      <ga-dialog id="dialog" heading="[[text.notes.about]]">
        <ga-file-facts file="[[file]]" on-show-node="_close"></ga-file-facts>
      </ga-dialog>`;
  }

  static override get properties() {
    return { ...super.properties, file: Object };
  }

  declare file: DatabaseFile | undefined;

  open(): void {
    (this.$['dialog'] as GaDialog).open();
  }

  _close(): void {
    (this.$['dialog'] as GaDialog).close();
  }

  _label(file: DatabaseFile | undefined, text: Texts): string {
    const count = file?.diagnostics.length ?? 0;
    return count === 0 ? text.notes.about : text.notes.label(formatCount(count));
  }
}

customElements.define('ga-notes', GaNotes);
