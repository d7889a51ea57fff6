import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { toCsv, toTsv } from '../../data/delimited';
import type { GradeBand, NodeDetail } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { Session } from '../../session/session';
import { formatCount } from '../parts/format';
import '../parts/ga-copy';
import '../parts/ga-icon';
import '../parts/ga-xlsx';
import { LocalizedElement } from '../parts/localized';
import { saveText } from '../parts/save-file';
import type { TableQuery } from '../parts/save-table';
import { controls } from '../parts/styles';
import { rememberLook, sorted, type TableLook } from './table-look';
import { tensorColumns, type Column, type ColumnGroup } from './tensor-columns';
import { fileRows, shownRows } from './tensor-export';

interface Choice {
  readonly key: string;
  readonly label: string;
  readonly hint: string;
  readonly isShown: boolean;
}

interface ChoiceGroup {
  readonly title: string;
  readonly choices: readonly Choice[];
}

/** What can be done with the table of tensors: columns, digits, order, copy, download. */
export class GaTableTools extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 4px;
          min-width: 0;
        }
        @media (max-width: 1100px) {
          :host {
            flex-wrap: wrap;
          }
        }
        button {
          height: 24px;
          padding: 0 8px;
        }
        .facts {
          margin: 0 8px;
          font-size: 12px;
          white-space: nowrap;
        }
        .attention {
          color: var(--ga-danger);
        }
        #chooser {
          position: fixed;
          inset: auto;
          margin: 0;
          padding: 12px 16px;
          max-width: min(900px, 94vw);
          max-height: 70vh;
          overflow: auto;
          border: 1px solid var(--ga-border);
          border-radius: 10px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        fieldset {
          border: 0;
          margin: 0 0 8px;
          padding: 0;
        }
        legend {
          padding: 0;
          font-weight: 600;
        }
        label {
          display: grid;
          grid-template-columns: 16px 130px minmax(0, 1fr);
          gap: 8px;
          align-items: center;
          padding: 2px 0;
        }
        label:hover {
          background: var(--ga-hover);
        }
        input {
          height: 14px;
          margin: 0;
          accent-color: var(--ga-accent);
        }
        small {
          font-size: 12px;
        }
      </style>
      <span class="facts muted">[[_rows(detail, text)]]</span>
      <span class="facts attention" hidden$="[[!_unmatched(detail)]]"
        >[[_unmatchedText(detail, text)]]</span
      >
      <button
        id="order"
        hidden$="[[!look.sort]]"
        title="[[text.table.executionOrderHint]]"
        on-click="_unsort"
      >
        <ga-icon name="order"></ga-icon>[[text.table.executionOrder]]
      </button>
      <button
        id="recipes"
        class="plain"
        hidden$="[[!_isMerged(detail)]]"
        aria-pressed$="[[_pressed(look.recipes)]]"
        title="[[text.origin.showAllHint]]"
        on-click="_recipes"
      >
        <ga-icon name="merge"></ga-icon>[[text.origin.showAll]]
      </button>
      <button
        id="columns"
        class="plain"
        aria-haspopup="dialog"
        title="[[text.table.columnsHint]]"
        on-click="_choose"
      >
        <ga-icon name="columns"></ga-icon>[[_columnsLabel(groups, text)]]
      </button>
      <button
        id="exact"
        class="plain"
        aria-pressed$="[[_pressed(look.exact)]]"
        title="[[text.table.exactHint]]"
        on-click="_exact"
      >
        [[text.table.exact]]
      </button>
      <ga-copy
        id="copy"
        value="[[_tsv(detail, columns, look)]]"
        label="[[text.table.copy]]"
      ></ga-copy>
      <button id="csv" class="plain" title="[[text.table.csvHint]]" on-click="_csv">
        <ga-icon name="download"></ga-icon>[[text.table.csv]]
      </button>
      <ga-xlsx
        session="[[session]]"
        query="[[_query(detail, file, step, rank)]]"
        file="[[_name(detail, step, rank)]]"
        hint="[[text.table.xlsxHint]]"
      ></ga-xlsx>
      <div id="chooser" popover role="dialog" aria-label="[[text.table.columnsHint]]">
        <template is="dom-repeat" items="[[groups]]" as="group">
          <fieldset>
            <legend>[[group.title]]</legend>
            <template is="dom-repeat" items="[[group.choices]]">
              <label>
                <input
                  type="checkbox"
                  checked="[[item.isShown]]"
                  data-key$="[[item.key]]"
                  on-change="_toggle"
                />
                <span>[[item.label]]</span>
                <small class="muted">[[item.hint]]</small>
              </label>
            </template>
          </fieldset>
        </template>
        <button on-click="_all">[[text.table.allColumns]]</button>
      </div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      detail: Object,
      bands: Array,
      task: String,
      single: Boolean,
      session: Object,
      file: String,
      step: Number,
      rank: Number,
      look: { type: Object, notify: true },
      columns: { type: Array, computed: '_columns(detail, bands, task, text)' },
      groups: { type: Array, computed: '_groups(columns, look, single, text)' },
    };
  }

  static get observers() {
    return ['_remember(look)'];
  }

  declare detail: NodeDetail | null;
  declare look: TableLook;
  declare session: Session;
  declare file: string;
  declare step: number;
  declare rank: number;
  declare columns: Column[];
  declare groups: ChoiceGroup[];

  _remember(look: TableLook): void {
    rememberLook(look);
  }

  _columns(
    detail: NodeDetail | null,
    bands: readonly GradeBand[],
    task: string,
    text: Texts,
  ): Column[] {
    return detail ? tensorColumns(detail.rows, bands, text, task === 'statistics') : [];
  }

  _groups(columns: Column[], look: TableLook, single: boolean, text: Texts): ChoiceGroup[] {
    const titles: Record<ColumnGroup, string> = {
      shared: text.tensors.parameter,
      npu: single ? text.sides.model : text.sides.debug,
      bench: text.sides.reference,
      comparison: text.tensors.errors,
      difference: text.tensors.differences,
    };
    return (Object.keys(titles) as ColumnGroup[])
      .map((group) => ({
        title: titles[group],
        choices: columns
          .filter((column) => column.group === group)
          .map(({ key, label, hint }) => ({
            key,
            label,
            hint,
            isShown: !look.hidden.includes(key),
          })),
      }))
      .filter(({ choices }) => choices.length > 0);
  }

  _columnsLabel(groups: ChoiceGroup[], text: Texts): string {
    const choices = groups.flatMap((group) => group.choices);
    const shown = choices.filter(({ isShown }) => isShown).length;
    if (shown === choices.length) return text.table.columns;
    return text.table.columnsOf(String(shown), String(choices.length));
  }

  _rows(detail: NodeDetail | null, text: Texts): string {
    return detail ? text.table.rows(formatCount(detail.rows.length)) : '';
  }

  /** Parameters that only one of two matched nodes has. */
  _unmatched(detail: NodeDetail | null): number {
    if (!detail?.npu || !detail.bench) return 0;
    return detail.rows.filter(({ npu, bench }) => !npu || !bench).length;
  }

  _unmatchedText(detail: NodeDetail | null, text: Texts): string {
    return text.table.unmatched(formatCount(this._unmatched(detail)));
  }

  _isMerged(detail: NodeDetail | null): boolean {
    return [detail?.npu, detail?.bench].some((record) => (record?.originRanks.length ?? 0) > 0);
  }

  _tsv(detail: NodeDetail | null, columns: Column[], look: TableLook): string {
    if (!detail) return '';
    const shown = columns.filter(({ key }) => !look.hidden.includes(key));
    return toTsv(shownRows(sorted(detail.rows, columns, look.sort), shown));
  }

  _csv(): void {
    const { detail, step, rank, columns } = this;
    if (!detail) return;
    const rows = fileRows(detail, { step, rank }, columns, this.text.verdict.tell);
    saveText(`${this._name(detail, step, rank)}.csv`, toCsv(rows), 'text/csv');
  }

  _name(detail: NodeDetail | null, step: number, rank: number): string {
    return `${(detail?.npu ?? detail?.bench)?.name ?? ''}_step${step}_rank${rank}`;
  }

  /** What the server writes the table of. */
  _query(detail: NodeDetail | null, file: string, step: number, rank: number): TableQuery {
    const side = detail?.npu ? 'npu' : 'bench';
    const index = (detail?.npu ?? detail?.bench)?.index ?? 0;
    return { file, of: 'node', step, rank, side, index };
  }

  _pressed(value: boolean): string {
    return String(value);
  }

  _unsort(): void {
    this.look = { ...this.look, sort: null };
  }

  _exact(): void {
    this.look = { ...this.look, exact: !this.look.exact };
  }

  _recipes(): void {
    this.look = { ...this.look, recipes: !this.look.recipes };
  }

  _all(): void {
    this.look = { ...this.look, hidden: [] };
  }

  _toggle(event: Event): void {
    const { checked, dataset } = event.target as HTMLInputElement;
    const key = dataset['key'] ?? '';
    const others = this.look.hidden.filter((hidden) => hidden !== key);
    this.look = { ...this.look, hidden: checked ? others : [...others, key] };
  }

  /** Opens the list above its button: the table is at the bottom of the window. */
  _choose(): void {
    const chooser = this.$['chooser'] as HTMLElement;
    const button = (this.$['columns'] as HTMLElement).getBoundingClientRect();
    chooser.togglePopover();
    chooser.style.right = `${Math.max(8, window.innerWidth - button.right)}px`;
    chooser.style.bottom = `${window.innerHeight - button.top + 4}px`;
    chooser.style.maxHeight = `${Math.max(120, button.top - 16)}px`;
    chooser.querySelector('input')?.focus();
  }
}

customElements.define('ga-table-tools', GaTableTools);
