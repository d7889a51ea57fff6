import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { DatabaseFile, Diagnostic } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { formatCount } from './format';
import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';
import { translated } from './words';

/** What is compared with what, since when, and what the build had to say about it. */
export class GaNotes extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          width: min(800px, 90vw);
          max-height: 80vh;
          padding: 20px 24px;
          border: 1px solid var(--ga-border);
          border-radius: 12px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        dialog::backdrop {
          background: rgb(0 0 0 / 40%);
        }
        header {
          display: flex;
          align-items: center;
          justify-content: space-between;
        }
        h1 {
          font: 600 16px/24px var(--ga-font);
          margin: 0;
        }
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
        li.warning {
          border-color: var(--ga-grade-4-solid);
        }
        li.error {
          border-color: var(--ga-danger);
        }
      </style>
      <button id="open" class="plain" on-click="open" hidden$="[[!file]]">
        <ga-icon name="info"></ga-icon>[[_label(file, text)]]
      </button>
      <dialog id="dialog" aria-labelledby="title">
        <header>
          <h1 id="title">[[text.notes.about]]</h1>
          <button
            class="icon plain"
            on-click="close"
            title="[[text.help.close]]"
            aria-label="[[text.help.close]]"
          >
            <ga-icon name="clear"></ga-icon>
          </button>
        </header>
        <dl>
          <dt>[[text.toolbar.file]]</dt>
          <dd class="mono">[[file.file]]</dd>
          <dt>[[_sideName(file, text)]]</dt>
          <dd class="mono">[[file.npuPath]]</dd>
          <dt hidden$="[[!file.isComparison]]">[[text.sides.reference]]</dt>
          <dd class="mono" hidden$="[[!file.isComparison]]">[[file.benchPath]]</dd>
          <dt>[[text.notes.task]]</dt>
          <dd>[[_task(file, text)]]</dd>
          <dt>[[text.notes.builtAt]]</dt>
          <dd>[[_builtAt(file, text)]]</dd>
        </dl>
        <h2 hidden$="[[!file.diagnostics.length]]">[[text.notes.title]]</h2>
        <ul>
          <template is="dom-repeat" items="[[file.diagnostics]]">
            <li class$="[[item.severity]]">
              <strong>[[_where(item, text)]]</strong> [[item.message]]
              <span class="mono muted">[[item.subject]]</span>
            </li>
          </template>
        </ul>
      </dialog>`;
  }

  static override get properties() {
    return { ...super.properties, file: Object };
  }

  declare file: DatabaseFile | undefined;

  open(): void {
    (this.$['dialog'] as HTMLDialogElement).showModal();
  }

  close(): void {
    (this.$['dialog'] as HTMLDialogElement).close();
  }

  _label(file: DatabaseFile | undefined, text: Texts): string {
    const count = file?.diagnostics.length ?? 0;
    return count === 0 ? text.notes.about : text.notes.label(formatCount(count));
  }

  _sideName(file: DatabaseFile | undefined, text: Texts): string {
    return file?.isComparison ? text.sides.debug : text.sides.model;
  }

  _task(file: DatabaseFile | undefined, text: Texts): string {
    return file ? translated<string>(text.tasks, file.task, file.task) : '';
  }

  /** In the reader's own time zone; as it stands in the file when it is no time. */
  _builtAt(file: DatabaseFile | undefined, text: Texts): string {
    const date = new Date(file?.createdAt ?? '');
    if (Number.isNaN(date.getTime())) return file?.createdAt ?? '';
    return date.toLocaleString(text.language.code === 'zh' ? 'zh-CN' : 'en-GB');
  }

  _where({ step, rank, count }: Diagnostic, text: Texts): string {
    const parts = [
      step === undefined ? '' : `${text.toolbar.step} ${step}`,
      rank === undefined ? '' : `${text.toolbar.rank} ${rank}`,
      count > 1 ? `${formatCount(count)} ×` : '',
    ];
    return parts.filter((part) => part !== '').join(' · ');
  }
}

customElements.define('ga-notes', GaNotes);
