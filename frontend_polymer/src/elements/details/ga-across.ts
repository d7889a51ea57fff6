import { html } from '@polymer/polymer/polymer-element.js';

import { asProblem } from '../../data/problem';
import { ask } from '../../data/api';
import { measuresOf, placeTable, worstRanks, type Measure } from '../../data/places';
import { Side, type NodeAcross } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { visit } from '../../session/trail';
import { acrossChart, measureName } from './across-chart';
import { formatCount } from '../parts/format';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** More buttons than this are too many to look at, and slow. */
const MOST_PLACES = 4000;

/** The selected node in all steps and ranks, and the way there. */
export class GaAcross extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          flex-direction: column;
          min-height: 0;
        }
        .bar {
          display: flex;
          align-items: center;
          gap: 12px;
          flex: none;
          padding: 4px 12px;
          min-height: 34px;
        }
        .bar select {
          height: 24px;
        }
        .scroll {
          flex: 1;
          overflow: auto;
          overscroll-behavior: contain;
          padding: 0 12px 8px;
        }
        table {
          border-collapse: separate;
          border-spacing: 3px;
          font-variant-numeric: tabular-nums;
        }
        th {
          position: sticky;
          left: 0;
          top: 0;
          z-index: 1;
          padding: 0 6px;
          background: var(--ga-surface);
          color: var(--ga-muted);
          font-weight: normal;
          white-space: nowrap;
        }
        .corner {
          z-index: 2;
          text-align: left;
        }
        td {
          padding: 0;
        }
        .place,
        .none {
          position: relative;
          display: flex;
          align-items: center;
          justify-content: flex-start;
          gap: 6px;
          min-width: 84px;
          width: 100%;
          height: 30px;
          padding: 0 18px 0 8px;
          border: 1px solid;
          border-radius: 5px;
        }
        .narrow .place,
        .narrow .none {
          min-width: 0;
          width: 32px;
          padding: 0 0 0 5px;
        }
        .narrow .value {
          display: none;
        }
        .place.dashed {
          border-style: dashed;
        }
        .place:hover:not(:disabled) {
          outline: 2px solid var(--ga-accent);
        }
        .place[aria-current] {
          box-shadow:
            0 0 0 2px var(--ga-surface),
            0 0 0 4px var(--ga-accent);
        }
        .gauge {
          position: absolute;
          right: 4px;
          top: 3px;
          bottom: 3px;
          width: 7px;
          border: 1px solid currentColor;
          border-radius: 2px;
          background: linear-gradient(currentColor 0 0) bottom / 100% var(--height) no-repeat;
        }
        .flag {
          font-weight: 700;
        }
        .none {
          border: 1px dashed var(--ga-border);
        }
        p {
          margin: 12px 16px;
        }
      </style>
      <div class="bar" hidden$="[[!across]]">
        <label class="muted" for="measure" hidden$="[[!_choosable(across)]]"
          >[[text.across.measure]]</label
        >
        <select id="measure" on-change="_measure" hidden$="[[!_choosable(across)]]"></select>
        <span class="muted">[[_hint(across, text)]]</span>
        <span hidden$="[[!isCut]]">[[_cutText(across, isCut, text)]]</span>
        <button hidden$="[[!isCut]]" on-click="_showAll">[[_allText(across, text)]]</button>
      </div>
      <p class="muted" role="status" hidden$="[[!busy]]">[[text.across.loading]]</p>
      <p role="alert" hidden$="[[!failure]]">[[text.across.failed]] [[failure]]</p>
      <div
        id="chart"
        class="scroll"
        hidden$="[[!across]]"
        on-click="_go"
        on-keydown="_key"
        on-focusin="_focused"
      ></div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      active: Boolean,
      across: { type: Object, value: null },
      measure: { type: String, value: 'error' },
      everything: { type: Boolean, value: false },
      isCut: { type: Boolean, value: false },
      busy: { type: Boolean, value: false },
      failure: { type: String, value: '' },
    };
  }

  static get observers() {
    return [
      '_wanted(active, state.detail)',
      '_render(across, measure, everything, state.view.step, state.view.rank, text)',
      '_measures(across, text)',
    ];
  }

  declare session: Session;
  declare state: AppState;
  declare active: boolean;
  declare across: NodeAcross | null;
  declare measure: Measure;
  declare everything: boolean;
  declare isCut: boolean;
  declare busy: boolean;
  declare failure: string;
  private key = '';
  private side = Side.NPU;
  private name = '';
  private loading = new AbortController();

  /** Asks once per node; the same node in another step or rank is the same answer. */
  _wanted(active: boolean, detail: AppState['detail']): void {
    if (!active || !detail) return;
    const { file } = this.state.view;
    const side = detail.npu ? Side.NPU : Side.BENCH;
    const name = (detail.npu ?? detail.bench)?.name ?? '';
    const key = [file, detail.revision, side, name].join('\n');
    if (this.key === key) return;
    Object.assign(this, { key, side, name });
    void this.load({ file, side, name });
  }

  _measures(across: NodeAcross | null, text: Texts): void {
    if (!across) return;
    const measures = measuresOf(across);
    const select = this.$['measure'] as HTMLSelectElement;
    select.replaceChildren(
      ...measures.map((measure) => new Option(measureName(measure, text), measure)),
    );
    if (!measures.includes(this.measure)) this.measure = measures[0] ?? 'error';
    select.value = this.measure;
  }

  _render(
    across: NodeAcross | null,
    measure: Measure,
    everything: boolean,
    step: number,
    rank: number,
    text: Texts,
  ): void {
    const chart = this.$['chart'] as HTMLElement;
    if (!across) {
      chart.replaceChildren();
      return;
    }
    const steps = new Set(across.step).size;
    const most = Math.max(1, Math.floor(MOST_PLACES / steps));
    const ranks = worstRanks(across, everything ? Infinity : most);
    this.isCut = ranks.length < new Set(across.rank).size;
    const { bands = [], isComparison, overflowChecked } = fileOf(this.state) ?? {};
    const isOverflowShown = isComparison === false && overflowChecked === true;
    const shown = { across, measure, bands, step, rank, isOverflowShown };
    const hadFocus = chart.contains(this.shadowRoot?.activeElement ?? null);
    chart.replaceChildren(acrossChart(placeTable(across, ranks), shown, text));
    const here =
      chart.querySelector<HTMLElement>('[aria-current]') ??
      chart.querySelector<HTMLElement>('.place');
    if (!here) return;
    here.tabIndex = 0;
    if (hadFocus) here.focus();
    here.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }

  _choosable(across: NodeAcross | null): boolean {
    return across !== null && measuresOf(across).length > 1;
  }

  _hint(across: NodeAcross | null, text: Texts): string {
    if (!across) return '';
    const { isComparison, overflowChecked } = fileOf(this.state) ?? {};
    if (isComparison === false)
      return overflowChecked ? text.across.onlyOverflow : text.across.onlyPresence;
    return measuresOf(across).length > 0 ? text.across.height : text.across.heightGrade;
  }

  _cutText(across: NodeAcross | null, isCut: boolean, text: Texts): string {
    if (!across || !isCut) return '';
    const most = Math.max(1, Math.floor(MOST_PLACES / new Set(across.step).size));
    return text.across.worstOf(formatCount(most), formatCount(new Set(across.rank).size));
  }

  _allText(across: NodeAcross | null, text: Texts): string {
    return across ? text.across.showAll(formatCount(new Set(across.rank).size)) : '';
  }

  _showAll(): void {
    this.everything = true;
  }

  _measure(event: Event): void {
    this.measure = (event.target as HTMLSelectElement).value as Measure;
  }

  _go(event: Event): void {
    const place = placeOf(event);
    const at = Number(place?.dataset['at'] ?? -1);
    const { across, name, side } = this;
    if (!across || at < 0 || place?.ariaCurrent) return;
    const [step, rank] = [across.step[at]!, across.rank[at]!];
    void visit(this.session, { step, rank, side, node: name });
  }

  _focused(event: Event): void {
    const place = placeOf(event);
    if (!place) return;
    for (const other of this.places('[tabindex="0"]')) other.tabIndex = -1;
    place.tabIndex = 0;
  }

  /** The arrows walk over the places, row by row and column by column. */
  _key(event: KeyboardEvent): void {
    const cell = placeOf(event)?.closest('td');
    const row = cell?.closest('tr');
    if (!cell || !row) return;
    const rows = [...(row.parentElement?.children ?? [])] as HTMLTableRowElement[];
    const [y, x] = [rows.indexOf(row), cell.cellIndex];
    const last = row.cells.length - 1;
    const targets: Record<string, [number, number]> = {
      ArrowLeft: [y, Math.max(1, x - 1)],
      ArrowRight: [y, Math.min(last, x + 1)],
      ArrowUp: [Math.max(0, y - 1), x],
      ArrowDown: [Math.min(rows.length - 1, y + 1), x],
      Home: [y, 1],
      End: [y, last],
    };
    const target = targets[event.key];
    if (!target) return;
    event.preventDefault();
    rows[target[0]]?.cells[target[1]]?.querySelector<HTMLElement>('.place')?.focus();
  }

  private places(selector: string): NodeListOf<HTMLElement> {
    return (this.$['chart'] as HTMLElement).querySelectorAll(selector);
  }

  private async load(query: { file: string; side: Side; name: string }): Promise<void> {
    this.loading.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    this.setProperties({ across: null, everything: false, busy: true, failure: '' });
    try {
      const across = await ask(this.session.fetch, 'across', query, signal);
      if (!signal.aborted) this.setProperties({ across, busy: false });
    } catch (error) {
      if (signal.aborted) return;
      const { message, remedy } = asProblem(error);
      this.key = '';
      this.setProperties({ busy: false, failure: `${message} ${remedy}` });
    }
  }
}

function placeOf(event: Event): HTMLElement | null {
  return (event.target as HTMLElement).closest<HTMLElement>('.place');
}

customElements.define('ga-across', GaAcross);
