import { html } from '@polymer/polymer/polymer-element.js';

import { searchNames } from '../data/search';
import { Side } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { hasBench, type AppState, type Hits, type Session } from '../session';
import { formatCount } from './format';
import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';

/** Finds nodes by name and walks through what it found. */
export class GaSearch extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 4px;
        }
        select {
          padding: 0 4px;
        }
        .field {
          position: relative;
          flex: 1;
          display: flex;
          align-items: center;
          min-width: 0;
        }
        .field ga-icon {
          position: absolute;
          left: 8px;
          color: var(--ga-muted);
          pointer-events: none;
        }
        input {
          flex: 1;
          min-width: 0;
          padding: 0 8px 0 30px;
        }
        input:not(:placeholder-shown) {
          padding-right: 96px;
        }
        input::placeholder {
          color: var(--ga-muted);
          opacity: 1;
        }
        input::-webkit-search-cancel-button {
          display: none;
        }
        .count {
          position: absolute;
          right: 10px;
          color: var(--ga-muted);
          font-variant-numeric: tabular-nums;
          pointer-events: none;
        }
        .count.none {
          color: var(--ga-danger);
        }
      </style>
      <select
        id="side"
        on-change="_search"
        hidden$="[[!hasBench]]"
        title="[[text.search.side]]"
        aria-label="[[text.search.side]]"
      >
        <option value="npu">[[text.sides.debug]]</option>
        <option value="bench">[[text.sides.reference]]</option>
      </select>
      <div class="field">
        <ga-icon name="search"></ga-icon>
        <input
          id="input"
          type="search"
          maxlength="500"
          spellcheck="false"
          autocomplete="off"
          placeholder="[[text.search.placeholder]]"
          aria-label="[[text.search.label]]"
          on-input="_search"
          on-keydown="_key"
        />
        <span class$="[[_countClass(hits)]]" role="status">[[_count(hits, text)]]</span>
      </div>
      <button
        id="previous"
        class="icon plain"
        disabled$="[[!_any(hits)]]"
        on-click="_previous"
        title="[[text.search.previous]]"
        aria-label="[[text.search.previous]]"
      >
        <ga-icon name="previous"></ga-icon>
      </button>
      <button
        id="next"
        class="icon plain"
        disabled$="[[!_any(hits)]]"
        on-click="_next"
        title="[[text.search.next]]"
        aria-label="[[text.search.next]]"
      >
        <ga-icon name="next"></ga-icon>
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      hits: { type: Object, computed: '_hits(state.hits)' },
      hasBench: { type: Boolean, computed: '_hasBench(state)' },
    };
  }

  static get observers() {
    return ['_graphsChanged(state.graphs, state.view.micro)'];
  }

  declare session: Session;
  declare state: AppState;
  declare hasBench: boolean;
  private searched: { graphs: AppState['graphs']; micro: number } = { graphs: null, micro: 0 };

  override focus(): void {
    (this.$['input'] as HTMLInputElement).select();
  }

  _hits(hits: Hits | null): Hits | null {
    return hits?.source === 'search' ? hits : null;
  }

  _hasBench(state: AppState): boolean {
    return hasBench(state);
  }

  /** Another graph, the same question. */
  _graphsChanged(graphs: AppState['graphs'], micro: number): void {
    if (graphs === this.searched.graphs && micro === this.searched.micro) return;
    this.searched = { graphs, micro };
    if (graphs && this.query !== '') this._search();
  }

  _search(): void {
    const { graphs, view } = this.state;
    const chosen = (this.$['side'] as HTMLSelectElement).value;
    const side = chosen === 'bench' && graphs?.[Side.BENCH] ? Side.BENCH : Side.NPU;
    const graph = graphs?.[side];
    if (this.query === '' || !graph) {
      this.session.clearHits();
      return;
    }
    const indices = searchNames(graph, this.query, view.micro);
    this.session.setHits({ source: 'search', key: this.query, side, indices });
  }

  _key(event: KeyboardEvent): void {
    if (event.key === 'Enter') {
      this.step(event.shiftKey ? -1 : 1);
      event.preventDefault();
    } else if (event.key === 'Escape') {
      const input = this.$['input'] as HTMLInputElement;
      if (input.value === '') input.blur();
      input.value = '';
      this.session.clearHits();
    }
  }

  _previous(): void {
    this.step(-1);
  }

  _next(): void {
    this.step(1);
  }

  _any(hits: Hits | null): boolean {
    return (hits?.indices.length ?? 0) > 0;
  }

  _count(hits: Hits | null, text: Texts): string {
    if (!hits) return '';
    const total = formatCount(hits.indices.length);
    if (hits.indices.length === 0) return text.search.none;
    if (hits.position < 0) return text.search.count(total);
    return text.search.position(formatCount(hits.position + 1), total);
  }

  _countClass(hits: Hits | null): string {
    return hits?.indices.length === 0 ? 'count none' : 'count';
  }

  private get query(): string {
    return (this.$['input'] as HTMLInputElement).value.trim();
  }

  private step(direction: 1 | -1): void {
    this.dispatchEvent(
      new CustomEvent('step-hit', { detail: direction, bubbles: true, composed: true }),
    );
  }
}

customElements.define('ga-search', GaSearch);
