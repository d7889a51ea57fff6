import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';

import type { ProblemError } from '../../data/problem';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import './ga-convert';
import '../parts/ga-copy';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { problemWording } from '../parts/words';

const CONFIG = '{"npu_path": "./npu_dump", "bench_path": "./bench_dump"}';

/** What stands in the place of the graph when there is none: why, and what to do. */
export class GaMessage extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: grid;
          place-items: center;
          overflow: auto;
          padding: 24px;
          background: var(--ga-background);
        }
        section {
          max-width: 720px;
          min-width: min(480px, 90%);
          padding: 24px 32px;
          border: 1px solid var(--ga-border);
          border-radius: 12px;
          background: var(--ga-surface);
          box-shadow: var(--ga-shadow);
        }
        h1 {
          display: flex;
          align-items: center;
          gap: 8px;
          font: 600 18px/28px var(--ga-font);
          margin: 0 0 8px;
        }
        h1 ga-icon {
          color: var(--ga-danger);
        }
        p {
          margin: 8px 0;
          overflow-wrap: anywhere;
        }
        .code {
          display: flex;
          align-items: center;
          gap: 8px;
          padding: 4px 4px 4px 12px;
          border-radius: 6px;
          background: var(--ga-raised);
          border: 1px solid var(--ga-border);
          font: 12px/20px var(--ga-mono);
          overflow-wrap: anywhere;
        }
        .code span {
          flex: 1;
        }
        button {
          margin-top: 8px;
        }
      </style>
      <template is="dom-if" if="[[problem]]">
        <section role="alert">
          <h1><ga-icon name="warning"></ga-icon>[[text.problem.title]]</h1>
          <p id="message">[[_message(problem, file, text)]]</p>
          <p id="remedy" class="muted">[[_remedy(problem, file, text)]]</p>
          <ga-convert
            session="[[session]]"
            file="[[file]]"
            hidden$="[[!_canConvert(problem)]]"
          ></ga-convert>
          <button class="primary" on-click="_retry">
            <ga-icon name="refresh"></ga-icon>[[text.problem.retry]]
          </button>
          <button id="other" hidden$="[[!other]]" on-click="_showOther">
            [[_otherLabel(other, text)]]
          </button>
        </section>
      </template>
      <template is="dom-if" if="[[_isEmpty(problem, catalog)]]">
        <section>
          <h1>[[text.empty.title]]</h1>
          <p>[[text.empty.searched]]</p>
          <div class="code"><span id="logdir">[[catalog.logdir]]</span></div>
          <p>[[text.empty.build]]</p>
          <div class="code">
            <span>[[_command(catalog)]]</span>
            <ga-copy value="[[_command(catalog)]]" label="[[text.empty.copy]]"></ga-copy>
          </div>
          <p>[[text.empty.config]]</p>
          <div class="code">
            <span>[[config]]</span>
            <ga-copy value="[[config]]" label="[[text.empty.copy]]"></ga-copy>
          </div>
          <button class="primary" on-click="_retry">
            <ga-icon name="refresh"></ga-icon>[[text.empty.refresh]]
          </button>
        </section>
      </template>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      problem: Object,
      catalog: Object,
      file: String,
      config: { type: String, value: CONFIG },
      other: { type: String, computed: '_other(catalog, file)' },
    };
  }

  declare problem: ProblemError | null;
  declare catalog: AppState['catalog'];
  declare other: string;

  _isEmpty(problem: ProblemError | null, catalog: AppState['catalog']): boolean {
    return !problem && catalog !== null;
  }

  _message(problem: ProblemError, file: string, text: Texts): string {
    return problemWording(problem, file, text).message;
  }

  _remedy(problem: ProblemError, file: string, text: Texts): string {
    return problemWording(problem, file, text).remedy;
  }

  _canConvert(problem: ProblemError): boolean {
    return problem.code === 'reference_format';
  }

  /** Another file that can be shown. */
  _other(catalog: AppState['catalog'], file: string): string {
    const others = (catalog?.files ?? []).filter((other) => other.file !== file && !other.problem);
    return others[0]?.file ?? '';
  }

  _otherLabel(other: string, text: Texts): string {
    return text.shell.otherFile(other);
  }

  _showOther(): void {
    this.dispatchEvent(new CustomEvent('show-file', { detail: this.other }));
  }

  _command(catalog: AppState['catalog']): string {
    const logdir = catalog?.logdir ?? '';
    const isPlain = /^[\w./~-]*$/.test(logdir);
    return `msprobe-build -i compare.json -o ${isPlain ? logdir : `'${logdir}'`}`;
  }

  _retry(): void {
    this.dispatchEvent(new CustomEvent('retry'));
  }
}

customElements.define('ga-message', GaMessage);
