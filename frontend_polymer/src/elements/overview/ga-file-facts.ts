import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { Side, type DatabaseFile, type Diagnostic } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { formatCount } from '../parts/format';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { translated } from '../parts/words';

const NODE = /\.(forward|backward)(\.\d+)?$/;

/** What was compared with what, how and when, and what the build had to say about it. */
export class GaFileFacts extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        h2 {
          font: 600 13px/20px var(--ga-font);
          color: var(--ga-muted);
          margin: 16px 0 4px;
        }
        dl {
          display: grid;
          grid-template-columns: auto 1fr;
          gap: 4px 16px;
          margin: 8px 0;
        }
        dt {
          color: var(--ga-muted);
        }
        dd {
          margin: 0;
          overflow-wrap: anywhere;
        }
        ul {
          margin: 0;
          padding: 0;
          list-style: none;
        }
        li {
          padding: 6px 0 6px 12px;
          margin-bottom: 4px;
          border-left: 3px solid var(--ga-border);
          overflow-wrap: anywhere;
        }
        li button {
          max-width: 100%;
        }
        li.warning {
          border-color: var(--ga-grade-4-solid);
        }
        li.error {
          border-color: var(--ga-danger);
        }
      </style>
      <dl>
        <dt>[[text.toolbar.file]]</dt>
        <dd class="mono">[[file.file]]</dd>
        <dt>[[_sideName(file, text)]]</dt>
        <dd>[[_name(file.npuName, file.npuPath)]] <span class="mono">[[file.npuPath]]</span></dd>
        <dt hidden$="[[!file.isComparison]]">[[text.roles.reference]]</dt>
        <dd hidden$="[[!file.isComparison]]">
          [[_name(file.benchName, file.benchPath)]] <span class="mono">[[file.benchPath]]</span>
        </dd>
        <dt>[[_taskTitle(file, text)]]</dt>
        <dd>[[_task(file, text)]]</dd>
        <dt>[[text.notes.builtAt]]</dt>
        <dd>[[_builtAt(file)]]</dd>
      </dl>
      <h2 hidden$="[[!file.diagnostics.length]]">[[text.notes.title]]</h2>
      <ul>
        <template is="dom-repeat" items="[[file.diagnostics]]">
          <li class$="[[item.severity]]">
            <strong>[[_where(item, file, text)]]</strong> [[_message(item, text)]]
            <span class="mono muted" hidden$="[[_isNode(item)]]">[[item.subject]]</span>
            <button class="plain" hidden$="[[!_isNode(item)]]" on-click="_go">
              <ga-icon name="jump"></ga-icon><span class="mono cut">[[item.subject]]</span>
            </button>
          </li>
        </template>
      </ul>`;
  }

  static override get properties() {
    return { ...super.properties, file: Object };
  }

  _sideName(file: DatabaseFile | undefined, text: Texts): string {
    return file?.isComparison ? text.roles.debug : text.roles.model;
  }

  /** Where it says more than the path. */
  _name(name: string, path: string): string {
    return name === path ? '' : name;
  }

  _taskTitle(file: DatabaseFile | undefined, text: Texts): string {
    return file?.isComparison ? text.notes.task : text.notes.recorded;
  }

  _task(file: DatabaseFile | undefined, text: Texts): string {
    return file ? translated<string>(text.tasks, file.task, file.task) : '';
  }

  /** In the reader's own time zone, year first; as it stands in the file when it is no time. */
  _builtAt(file: DatabaseFile | undefined): string {
    const date = new Date(file?.createdAt ?? '');
    if (Number.isNaN(date.getTime())) return file?.createdAt ?? '';
    return date.toLocaleString('sv-SE');
  }

  /** Notes on a single step and rank lead to the node that they name. */
  _isNode({ subject, step, rank }: Diagnostic): boolean {
    return step !== undefined && rank !== undefined && NODE.test(subject);
  }

  _go(event: Event & { model: { item: Diagnostic } }): void {
    const { step, rank, side, subject } = event.model.item;
    const detail = { step, rank, side: side ?? Side.NPU, node: subject };
    this.dispatchEvent(new CustomEvent('show-node', { detail, bubbles: true, composed: true }));
  }

  _message({ message }: Diagnostic, text: Texts): string {
    return text.verdict.tell(message);
  }

  _where(item: Diagnostic, file: DatabaseFile | undefined, text: Texts): string {
    const { step, rank, side, count } = item;
    const { debug, reference } = text.sides;
    const parts = [
      side === undefined || !file?.isComparison
        ? ''
        : side === (Side.BENCH as number)
          ? reference
          : debug,
      step === undefined ? '' : `${text.toolbar.step} ${step}`,
      rank === undefined ? '' : `${text.toolbar.rank} ${rank}`,
      count > 1 ? `${formatCount(count)} ×` : '',
    ];
    return parts.filter((part) => part !== '').join(' · ');
  }
}

customElements.define('ga-file-facts', GaFileFacts);
