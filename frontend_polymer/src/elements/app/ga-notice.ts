import { html } from '@polymer/polymer/polymer-element.js';

import type { Catalog } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { Unmet } from '../../session/nearest';
import type { AppState, News } from '../../session/app-state';
import type { Session } from '../../session/session';
import { formatCount } from '../parts/format';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** One line about what differs from what the user may think is shown, and what to do about it. */
export class GaNotice extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 12px;
          flex: none;
          padding: 4px 8px 4px 12px;
          background: var(--ga-accent-soft);
          border-bottom: 1px solid var(--ga-border);
        }
        span {
          flex: 1;
          overflow-wrap: anywhere;
        }
      </style>
      <ga-icon name="info"></ga-icon>
      <span role="status">[[message]]</span>
      <button id="reload" hidden$="[[!state.news]]" on-click="_reload">
        [[text.shell.reload]]
      </button>
      <button
        id="dismiss"
        class="icon plain"
        title="[[text.help.close]]"
        aria-label="[[text.help.close]]"
        on-click="_dismiss"
      >
        <ga-icon name="clear"></ga-icon>
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      isDismissed: { type: Boolean, value: false },
      message: {
        type: String,
        computed: '_message(state.news, state.unmet, state.catalog, isDismissed, text)',
        observer: '_messageChanged',
      },
    };
  }

  declare session: Session;
  declare state: AppState;
  declare isDismissed: boolean;

  _message(
    news: News | null,
    unmet: readonly Unmet[],
    catalog: Catalog | null,
    isDismissed: boolean,
    text: Texts,
  ): string {
    if (news) return text.shell.news[news](this.state.view.file);
    if (unmet.length === 0) return isDismissed ? '' : pageText(catalog, text);
    const parts = unmet.map(({ kind, wanted }) => text.shell.unmet[kind](wanted));
    return text.shell.notThere(parts.join(text.shell.separator));
  }

  _messageChanged(message: string): void {
    this.hidden = message === '';
  }

  _reload(): void {
    void this.session.reload();
  }

  _dismiss(): void {
    const { unmet, news } = this.state;
    if (!news && unmet.length === 0) this.isDismissed = true;
    this.session.dismiss();
  }
}

/** What a page without a server holds, and what not. */
function pageText(catalog: Catalog | null, text: Texts): string {
  const page = catalog?.page;
  if (!page) return '';
  const { shell } = text;
  const graphs = page.graphs < page.graphsOf ? shell.page.graphs(page.graphs, page.graphsOf) : '';
  const tensors =
    page.tensorsLeftOut > 0 ? shell.page.tensors(formatCount(page.tensorsLeftOut)) : '';
  return shell.sentences(shell.page.readOnly, graphs, tensors);
}

customElements.define('ga-notice', GaNotice);
