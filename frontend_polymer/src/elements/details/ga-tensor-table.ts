import { html } from '@polymer/polymer/polymer-element.js';

import type { GradeBand, NodeDetail, ParameterRow } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { LocalizedElement } from '../parts/localized';
import { showWithin } from '../parts/show-within';
import { controls } from '../parts/styles';
import { nameOf, nextSort, type TableLook } from './table-look';
import { tensorColumns } from './tensor-columns';
import { tensorTable } from './tensor-table';

/** One row per parameter of the selected node: debug, reference, error. */
export class GaTensorTable extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
          overflow: auto;
          overscroll-behavior: contain;
        }
        table {
          border-collapse: separate;
          border-spacing: 0;
          font-variant-numeric: tabular-nums;
        }
        th,
        td {
          padding: 2px 10px;
          text-align: left;
          white-space: nowrap;
          border-bottom: 1px solid var(--ga-border);
          background: var(--ga-surface);
          font-weight: normal;
        }
        thead :is(th, td) {
          position: sticky;
          z-index: 2;
          top: 0;
          background: var(--ga-raised);
          color: var(--ga-muted);
        }
        thead tr + tr th {
          top: 25px;
        }
        thead .group {
          color: var(--ga-text);
          font-weight: 600;
        }
        /* A side may have a long name: columns are as wide as their numbers. */
        .group .fit {
          display: block;
          width: 0;
          min-width: 100%;
          overflow: hidden;
          text-overflow: ellipsis;
        }
        .sort {
          height: 20px;
          padding: 0 4px;
          margin: 0 -4px;
          gap: 4px;
          color: inherit;
          font-weight: inherit;
          border-radius: 4px;
        }
        [aria-sort] .sort {
          color: var(--ga-accent);
          font-weight: 600;
        }
        .arrow {
          font-size: 9px;
        }
        .recipe-toggle {
          width: 22px;
          height: 20px;
          padding: 0;
          margin: -2px -4px -2px 4px;
          color: var(--ga-accent);
          vertical-align: middle;
        }
        .recipe-toggle[aria-expanded='true'] {
          background: var(--ga-accent-soft);
        }
        button.picture {
          width: 20px;
          height: 20px;
          padding: 0;
          margin: -2px 8px -2px 0;
          border: 1px solid var(--ga-control-border);
          border-radius: 3px;
          background: var(--ga-surface);
          vertical-align: middle;
          overflow: hidden;
        }
        .picture svg {
          display: block;
          width: 100%;
          height: 100%;
        }
        button.picture[aria-expanded='true'] {
          border-color: var(--ga-accent);
          box-shadow: 0 0 0 1px var(--ga-accent);
        }
        :is(.picture, .difference) rect {
          fill: var(--ga-danger);
          shape-rendering: crispEdges;
        }
        .difference {
          display: flex;
          gap: 20px;
          align-items: flex-start;
        }
        .difference svg {
          flex: none;
          margin-top: 2px;
        }
        .difference rect.frame {
          fill: var(--ga-surface);
          stroke: var(--ga-control-border);
        }
        .difference rect.share {
          fill: var(--ga-accent);
        }
        .difference p {
          margin: 3px 0;
          max-width: 60ch;
        }
        .difference .muted {
          color: var(--ga-muted);
        }
        .recipes td {
          padding: 0;
          white-space: normal;
          background: var(--ga-raised);
        }
        .recipes td > div {
          position: sticky;
          left: 0;
          display: flex;
          flex-wrap: wrap;
          gap: 8px 40px;
          width: max-content;
          max-width: min(100%, calc(100vw - 32px));
          padding: 8px 16px 10px;
        }
        .recipe p {
          margin: 2px 0;
          max-width: 76ch;
        }
        .parts {
          margin-top: 4px;
          border: 1px solid var(--ga-border);
          border-radius: 6px;
        }
        .parts :is(th, td) {
          position: static !important;
          padding: 1px 12px;
          font: 12px/20px var(--ga-font);
          background: var(--ga-surface);
          color: var(--ga-text);
        }
        .parts tbody tr:last-child > * {
          border-bottom: 0;
        }
        .parts thead th {
          color: var(--ga-muted);
          text-align: right;
        }
        .parts thead :is(th:first-child, th:last-child) {
          text-align: left;
        }
        .parts .numeric {
          font-family: var(--ga-mono);
        }
        .parts .merged {
          font-weight: 600;
        }
        .parts .muted {
          color: var(--ga-muted);
        }
        .unknown {
          color: var(--ga-muted);
          font-style: italic;
        }
        .exact :is(.numeric, .first) {
          font-feature-settings: 'tnum';
        }
        .name {
          position: sticky;
          z-index: 1;
          left: 0;
          border-right: 1px solid var(--ga-border);
        }
        thead .name {
          z-index: 3;
        }
        .numeric {
          text-align: right;
        }
        .first {
          border-left: 1px solid var(--ga-border);
        }
        tbody th {
          font-family: var(--ga-mono);
          font-size: 12px;
        }
        tr.begins > * {
          border-top: 2px solid var(--ga-control-border);
        }
        tbody tr:hover > :not([data-grade]) {
          background: var(--ga-hover);
        }
        .absent {
          color: var(--ga-muted);
        }
        .value {
          font-family: var(--ga-mono);
          font-size: 12px;
          max-width: 480px;
          overflow: hidden;
          text-overflow: ellipsis;
        }
        .notfinite {
          color: var(--ga-danger);
          font-weight: 700;
        }
        .differs {
          color: var(--ga-danger);
          text-decoration: underline dotted;
          text-underline-offset: 3px;
        }
        .one-side {
          margin-left: 8px;
          color: var(--ga-muted);
          font: 12px/20px var(--ga-font);
        }
        .flag {
          color: var(--ga-danger);
          font-weight: 700;
        }
        td[data-grade='2'] {
          background: var(--ga-grade-2-fill);
          color: var(--ga-grade-2-text);
        }
        td[data-grade='3'] {
          background: var(--ga-grade-3-fill);
          color: var(--ga-grade-3-text);
        }
        td[data-grade='4'] {
          background: var(--ga-grade-4-fill);
          color: var(--ga-grade-4-text);
        }
        td[data-grade='5'] {
          background: var(--ga-grade-5-fill);
          color: var(--ga-grade-5-text);
        }
        .bars {
          margin-right: 8px;
        }
        p {
          margin: 16px;
        }
      </style>
      <div id="content" on-click="_click"></div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      detail: Object,
      bands: Array,
      task: String,
      single: Boolean,
      look: { type: Object, notify: true },
      opened: { type: Object, value: () => new Set<string>() },
    };
  }

  static get observers() {
    return ['_detailChanged(detail)', '_render(detail, bands, task, single, look, opened, text)'];
  }

  declare detail: NodeDetail | null;
  declare bands: readonly GradeBand[];
  /** What the file was compared by; only statistics grade by relative errors. */
  declare task: string;
  /** There is no reference to tell the model from. */
  declare single: boolean;
  declare look: TableLook;
  /** Rows whose making is shown. */
  declare opened: ReadonlySet<string>;
  private node = '';
  private rendered: NodeDetail | null = null;

  /** Another node begins in the order of execution; the same one elsewhere stays as it is. */
  _detailChanged(detail: NodeDetail | null): void {
    const node = detail && (detail.npu ?? detail.bench)?.name;
    if (!node || node === this.node) return;
    this.node = node;
    if (this.opened.size > 0) this.opened = new Set();
    if (this.look.sort) this.look = { ...this.look, sort: null };
  }

  _render(
    detail: NodeDetail | null,
    bands: readonly GradeBand[],
    task: string,
    single: boolean,
    look: TableLook,
    opened: ReadonlySet<string>,
    text: Texts,
  ): void {
    const content = this.$['content'] as HTMLElement;
    if (!detail) return;
    const side = single ? text.sides.model : text.sides.debug;
    const columns = tensorColumns(detail.rows, bands, text, task === 'statistics');
    const isOpen = (row: ParameterRow) => opened.has(rowKey(row));
    const focused = (this.shadowRoot?.activeElement as HTMLElement | null)?.dataset;
    content.replaceChildren(tensorTable(detail, columns, { side, look, isOpen }, text));
    const selector = focused?.['sort']
      ? `[data-sort="${focused['sort']}"]`
      : focused?.['row'] && `[data-row="${focused['row']}"]`;
    if (selector) content.querySelector<HTMLElement>(selector)?.focus();
    if (detail !== this.rendered) this.showOutputs(content);
    this.rendered = detail;
  }

  /** What a node puts out says whether it is wrong; it is in sight however many inputs there are. */
  private showOutputs(content: HTMLElement): void {
    this.scrollTop = 0;
    const first = content.querySelector<HTMLElement>('[data-section="output"]');
    if (first) showWithin(this, first);
  }

  _click(event: Event): void {
    const button = (event.target as HTMLElement).closest('button');
    const { sort, row } = button?.dataset ?? {};
    if (sort) this.look = { ...this.look, sort: nextSort(this.look.sort, sort) };
    const parameter = row && this.detail?.rows[Number(row)];
    if (!parameter) return;
    const key = rowKey(parameter);
    const opened = new Set(this.opened);
    if (!opened.delete(key)) opened.add(key);
    this.opened = opened;
    const line = this.shadowRoot?.querySelector(`[data-row="${row}"]`)?.closest('tr');
    if (opened.has(key)) line?.nextElementSibling?.scrollIntoView({ block: 'nearest' });
  }
}

function rowKey(row: ParameterRow): string {
  return `${(row.npu ?? row.bench)?.section} ${nameOf(row)}`;
}

customElements.define('ga-tensor-table', GaTensorTable);
