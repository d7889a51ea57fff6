import { html } from '@polymer/polymer/polymer-element.js';

import type { Find } from '../../session/find';
import { Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { FileHits, Hits } from '../../session/hits';
import { hasBench, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { formatCount } from '../parts/format';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { setValue } from '../parts/set-value';
import { controls } from '../parts/styles';

interface Found {
  readonly position: number;
  readonly count: number;
  readonly isInvalid: boolean;
}

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
          max-width: 140px;
          text-overflow: ellipsis;
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
        @media (max-width: 1400px) {
          #side {
            width: 96px;
          }
          input:not(:placeholder-shown) {
            padding-right: 72px;
          }
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
          title="[[text.search.hint]]"
          aria-label="[[text.search.label]]"
          on-focus="_prepare"
          on-input="_search"
          on-keydown="_key"
        />
        <span class$="[[_countClass(hits)]]" role="status">[[_count(hits, text)]]</span>
      </div>
      <button
        id="pattern"
        class="icon plain mono"
        aria-pressed$="[[_pressed(state.view.find.isPattern)]]"
        on-click="_pattern"
        title="[[text.find.pattern]]"
        aria-label="[[text.find.pattern]]"
      >
        .*
      </button>
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
      </button>
      <button
        id="list"
        class="icon plain"
        aria-pressed$="[[_pressed(isListOpen)]]"
        on-click="_list"
        title="[[text.find.panelHint]] (l)"
        aria-label="[[text.find.panelHint]]"
      >
        <ga-icon name="list"></ga-icon>
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      isListOpen: { type: Boolean, value: false, notify: true },
      hits: { type: Object, computed: '_hits(state.hits, state.fileHits)' },
      hasBench: { type: Boolean, computed: '_hasBench(state)' },
    };
  }

  static get observers() {
    return ['_shown(state.view.find)'];
  }

  declare session: Session;
  declare state: AppState;
  declare hasBench: boolean;
  declare isListOpen: boolean;

  /** Not while the field itself is waiting to be shown as the one that has the focus. */
  _prepare(): void {
    setTimeout(() => this.session.finding.prepare());
  }

  override focus(): void {
    (this.$['input'] as HTMLInputElement).select();
  }

  _hits(hits: Hits | null, fileHits: FileHits | null): Found | null {
    if (fileHits) {
      const { result, position } = fileHits;
      return { position, count: result.index.length, isInvalid: false };
    }
    if (hits?.source !== 'search') return null;
    const { position, isInvalid = false, indices } = hits;
    return { position, count: indices.length, isInvalid };
  }

  _hasBench(state: AppState): boolean {
    return hasBench(state);
  }

  /** What is looked for may come from a link. */
  _shown(find: Find): void {
    const input = this.$['input'] as HTMLInputElement;
    if (input.value.trim() !== find.text) input.value = find.text;
    setValue(this.$['side'] as HTMLSelectElement, find.side === Side.BENCH ? 'bench' : 'npu');
  }

  _search(): void {
    const chosen = (this.$['side'] as HTMLSelectElement).value;
    const side = chosen === 'bench' ? Side.BENCH : Side.NPU;
    const text = (this.$['input'] as HTMLInputElement).value.trim();
    this.session.finding.change({ text, side });
  }

  _pattern(): void {
    this.session.finding.change({ isPattern: !this.state.view.find.isPattern });
  }

  _list(): void {
    this.isListOpen = !this.isListOpen;
  }

  _pressed(value: boolean): string {
    return String(value);
  }

  _key(event: KeyboardEvent): void {
    if (event.key === 'Enter') {
      this.step(event.shiftKey ? -1 : 1);
      event.preventDefault();
    } else if (event.key === 'Escape') {
      if (this.state.view.find.text === '') {
        this.dispatchEvent(new CustomEvent('focus-graph', { bubbles: true, composed: true }));
      }
      this.session.finding.change({ text: '' });
    }
  }

  _previous(): void {
    this.step(-1);
  }

  _next(): void {
    this.step(1);
  }

  _any(hits: Found | null): boolean {
    return (hits?.count ?? 0) > 0;
  }

  _count(hits: Found | null, text: Texts): string {
    if (!hits) return '';
    if (hits.isInvalid) return text.find.badPattern;
    const total = formatCount(hits.count);
    if (hits.count === 0) return text.search.none;
    if (hits.position < 0) return text.search.count(total);
    return text.search.position(formatCount(hits.position + 1), total);
  }

  _countClass(hits: Found | null): string {
    return hits?.count === 0 ? 'count none' : 'count';
  }

  private step(direction: 1 | -1): void {
    this.dispatchEvent(
      new CustomEvent('step-hit', { detail: direction, bubbles: true, composed: true }),
    );
  }
}

customElements.define('ga-search', GaSearch);
