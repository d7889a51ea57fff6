import { html } from '@polymer/polymer/polymer-element.js';

import type { GradeBand, NodeDetail } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { LocalizedElement } from './localized';
import { controls } from './styles';
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
          padding: 3px 10px;
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
          top: 27px;
        }
        thead .group {
          color: var(--ga-text);
          font-weight: 600;
        }
        thead [title] {
          cursor: help;
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
        tr.section th {
          font: 600 12px/20px var(--ga-font);
          color: var(--ga-muted);
          background: var(--ga-raised);
          border-right: 0;
        }
        tr.section td {
          background: var(--ga-raised);
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
        .lone {
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
      <div id="content"></div>`;
  }

  static override get properties() {
    return { ...super.properties, detail: Object, bands: Array, task: String, single: Boolean };
  }

  static get observers() {
    return ['_render(detail, bands, task, single, text)'];
  }

  declare detail: NodeDetail;
  declare bands: readonly GradeBand[];
  /** What the file was compared by; only statistics grade by relative errors. */
  declare task: string;
  /** There is no reference to tell the model from. */
  declare single: boolean;

  _render(
    detail: NodeDetail | null,
    bands: readonly GradeBand[],
    task: string,
    single: boolean,
    text: Texts,
  ): void {
    const content = this.$['content'] as HTMLElement;
    if (!detail) return;
    const side = single ? text.sides.model : text.sides.debug;
    const columns = tensorColumns(detail.rows, bands, text, task === 'statistics');
    content.replaceChildren(tensorTable(detail, columns, side, text));
  }
}

customElements.define('ga-tensor-table', GaTensorTable);
