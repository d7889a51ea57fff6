import { html } from '@polymer/polymer/polymer-element.js';

import type { NodeDetail } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { visit } from '../../session/trail';
import { communicationTable, operationOf } from './communication-table';
import { create } from '../parts/create';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** Whom the selected call exchanges data with, and the way there. */
export class GaCommunication extends LocalizedElement {
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
          padding: 3px 12px;
          text-align: left;
          white-space: nowrap;
          font-weight: normal;
          border-bottom: 1px solid var(--ga-border);
        }
        thead th {
          position: sticky;
          top: 0;
          z-index: 1;
          background: var(--ga-raised);
          color: var(--ga-muted);
        }
        .side th {
          background: var(--ga-raised);
          font-weight: 600;
        }
        .side .muted {
          font-weight: normal;
        }
        tbody tr:not(.side):hover td {
          background: var(--ga-hover);
        }
        .number {
          text-align: right;
        }
        .bad {
          color: var(--ga-danger);
          font-weight: 600;
        }
        button {
          height: 24px;
          padding: 0 6px;
          margin-left: -6px;
          color: var(--ga-accent);
          text-decoration: underline;
          text-underline-offset: 3px;
        }
        .chip {
          display: inline-flex;
          align-items: center;
          gap: 6px;
          padding: 0 8px;
          margin-right: 4px;
          border: 1px solid;
          border-radius: 10px;
        }
        .chip.dashed {
          border-style: dashed;
        }
        p {
          margin: 16px;
          max-width: 80ch;
        }
      </style>
      <div id="content"></div>`;
  }

  static override get properties() {
    return { ...super.properties, session: Object, state: Object };
  }

  static get observers() {
    return ['_render(state.detail, text)'];
  }

  declare session: Session;
  declare state: AppState;

  _render(detail: NodeDetail | null, text: Texts): void {
    const content = this.$['content'] as HTMLElement;
    if (!detail) return;
    const partners = [detail.npu, detail.bench].flatMap((record) => record?.communication ?? []);
    if (partners.length === 0) {
      content.replaceChildren(create('p', 'muted', this.nothing(detail, text)));
      return;
    }
    const debug = hasBench(this.state) ? text.sides.debug : text.sides.model;
    const table = communicationTable(
      detail,
      [debug, text.sides.reference],
      text,
      (place) => void visit(this.session, place),
    );
    content.replaceChildren(table);
  }

  private nothing(detail: NodeDetail, text: Texts): string {
    const { view } = this.state;
    const graphs = fileOf(this.state)?.graphs ?? [];
    const operation = operationOf(detail.npu ?? detail.bench) ?? '';
    const ranks = graphs.filter((pair) => pair.step === view.step).length;
    return ranks > 1 ? text.communication.none(operation) : text.communication.single(operation);
  }
}

customElements.define('ga-communication', GaCommunication);
