import { html } from '@polymer/polymer/polymer-element.js';

import { readSetting, writeSetting } from '../../data/settings';
import type { AppState } from '../../session/app-state';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

const SETTING = 'exposed';
const SEEN = 'seen';

/** Says that whoever reaches the port may match, where other machines reach it; once. */
export class GaExposed extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 12px;
          flex: none;
          padding: 4px 8px 4px 12px;
          background: var(--ga-raised);
          border-bottom: 1px solid var(--ga-border);
        }
        :host([hidden]) {
          display: none;
        }
        span {
          flex: 1;
          overflow-wrap: anywhere;
        }
      </style>
      <ga-icon name="info"></ga-icon>
      <span role="status">[[text.notices.exposed]]</span>
      <button id="seen" on-click="_seen">[[text.notices.understood]]</button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      catalog: Object,
      wasSeen: { type: Boolean, value: () => readSetting(SETTING) === SEEN },
      hidden: {
        type: Boolean,
        reflectToAttribute: true,
        computed: '_hidden(catalog, wasSeen)',
      },
    };
  }

  declare wasSeen: boolean;

  _hidden(catalog: AppState['catalog'], wasSeen: boolean): boolean {
    return wasSeen || !catalog?.openToNetwork || !catalog.files.some((file) => file.writable);
  }

  _seen(): void {
    writeSetting(SETTING, SEEN);
    this.wasSeen = true;
  }
}

customElements.define('ga-exposed', GaExposed);
