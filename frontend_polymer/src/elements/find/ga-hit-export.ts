import { html } from '@polymer/polymer/polymer-element.js';

import { fetchSearch } from '../../data/api';
import { toCsv } from '../../data/delimited';
import { searchQuery } from '../../session/find';
import type { SearchResult } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import { ALL_MICRO_STEPS } from '../../session/state';
import type { Session } from '../../session/session';
import { formatCount } from '../parts/format';
import '../parts/ga-icon';
import '../parts/ga-xlsx';
import { fileHitRows, graphHitRows } from './hit-export';
import { hitCount } from './hit-rows';
import { LocalizedElement } from '../parts/localized';
import { saveText } from '../parts/save-file';
import type { TableQuery } from '../parts/save-table';
import { controls } from '../parts/styles';

/** Downloads what was found, also what the list has not loaded. */
export class GaHitExport extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: inline-flex;
          align-items: center;
          gap: 8px;
          flex: none;
        }
      </style>
      <span role="status" class="muted">[[_progress(read, failed, text)]]</span>
      <button
        class="icon plain"
        hidden$="[[!_any(state)]]"
        disabled="[[_isBusy(read)]]"
        title="[[text.table.hitsCsv]]"
        aria-label="[[text.table.hitsCsv]]"
        on-click="_download"
      >
        <ga-icon name="download"></ga-icon>
      </button>
      <ga-xlsx
        hidden$="[[!_any(state)]]"
        session="[[session]]"
        query="[[_query(state)]]"
        file="results"
        hint="[[text.table.hitsXlsx]]"
      ></ga-xlsx>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      read: { type: Number, value: -1 },
      failed: { type: Boolean, value: false },
    };
  }

  static get observers() {
    return ['_listed(state.hits, state.fileHits)'];
  }

  declare session: Session;
  declare state: AppState;
  /** Results read so far, -1 when nothing is read. */
  declare read: number;
  declare failed: boolean;
  private reading = new AbortController();

  /** Other results are listed: what was on its way belongs to the old ones. */
  _listed(): void {
    this.reading.abort();
    this.setProperties({ read: -1, failed: false });
  }

  _any(state: AppState): boolean {
    return hitCount(state) > 0;
  }

  /** What the list holds, in the words of the server. */
  _query({ view, fileHits }: AppState): TableQuery {
    const { file, step, rank, find, micro } = view;
    const place = { step, rank, ...(micro !== ALL_MICRO_STEPS && { micro }) };
    return { file, of: 'search', ...searchQuery(find), ...(!fileHits && place) };
  }

  _isBusy(read: number): boolean {
    return read >= 0;
  }

  _progress(read: number, failed: boolean, text: Texts): string {
    if (failed) return text.table.hitsFailed;
    return read < 0 ? '' : text.table.hitsBusy(formatCount(read));
  }

  async _download(): Promise<void> {
    const { view, fileHits } = this.state;
    if (!fileHits) {
      const name = `results_step${view.step}_rank${view.rank}.csv`;
      saveText(name, toCsv(graphHitRows(this.state)), 'text/csv');
      return;
    }
    this.reading = new AbortController();
    const { signal } = this.reading;
    this.setProperties({ read: 0, failed: false });
    try {
      const pages = await this.readAll({ file: view.file, ...searchQuery(view.find) }, signal);
      saveText('results.csv', toCsv(fileHitRows(pages)), 'text/csv');
      this.read = -1;
    } catch {
      if (!signal.aborted) this.setProperties({ read: -1, failed: true });
    }
  }

  private async readAll(
    query: Record<string, string | number>,
    signal: AbortSignal,
  ): Promise<SearchResult[]> {
    const pages: SearchResult[] = [];
    let cursor = '';
    do {
      const page = await fetchSearch(
        this.session.fetch,
        { ...query, ...(cursor && { cursor }) },
        signal,
      );
      signal.throwIfAborted();
      pages.push(page);
      this.read += page.index.length;
      cursor = page.next;
    } while (cursor);
    return pages;
  }
}

customElements.define('ga-hit-export', GaHitExport);
