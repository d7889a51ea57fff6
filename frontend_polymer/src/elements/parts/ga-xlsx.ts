import { html } from '@polymer/polymer/polymer-element.js';

import { hasServer } from '../../session/app-state';
import type { Session } from '../../session/session';
import './ga-icon';
import { LocalizedElement } from './localized';
import { saveTable, type TableQuery } from './save-table';
import { controls } from './styles';

/** A button that downloads a table as a workbook. */
export class GaXlsx extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: inline-flex;
          flex: none;
        }
        button {
          height: 24px;
          padding: 0 8px;
        }
      </style>
      <button
        class="plain"
        hidden$="[[_isPage(session, query)]]"
        title="[[hint]]"
        disabled="[[busy]]"
        on-click="_save"
      >
        <ga-icon name="download"></ga-icon>[[text.table.xlsx]]
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      query: Object,
      file: String,
      hint: String,
      busy: { type: Boolean, value: false },
    };
  }

  declare session: Session;
  declare query: TableQuery;
  /** What the file is called, without its suffix. */
  declare file: string;
  declare hint: string;
  declare busy: boolean;

  /** Known once there is something to ask for. */
  _isPage(session: Session | undefined): boolean {
    return session !== undefined && !hasServer(session.state);
  }

  async _save(): Promise<void> {
    this.busy = true;
    await saveTable(this, this.session.fetch, this.query, `${this.file}.xlsx`, this.text);
    this.busy = false;
  }
}

customElements.define('ga-xlsx', GaXlsx);
