import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { Grade, type Suspect, type Verdict } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import { eachCallOnce, olderThanMatches, placeOf, verdictOf } from '../../session/verdict';
import { formatBytes, formatCount } from '../parts/format';
import '../parts/ga-copy';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { translated } from '../parts/words';

/** More than these nobody reads; the keys reach the others. */
const SHOWN = 5;

/** What the build concludes of all steps and ranks, and a way to each suspect. */
export class GaVerdict extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
        }
        header {
          display: flex;
          align-items: center;
          flex-wrap: wrap;
          gap: 8px 12px;
        }
        h2 {
          margin: 0;
          font-size: 15px;
          text-wrap: balance;
          word-break: keep-all;
        }
        .conclusion {
          padding: 1px 10px;
          border-radius: 10px;
          border: 1px solid var(--ga-border);
          font-weight: 600;
        }
        .conclusion[data-conclusion='fault'] {
          background: var(--ga-grade-5-fill);
          color: var(--ga-grade-5-text);
          border-color: var(--ga-grade-5-stroke);
        }
        #go {
          margin-left: auto;
        }
        p {
          margin: 8px 0;
          max-width: 100ch;
          overflow-wrap: anywhere;
        }
        #check {
          display: flex;
          align-items: center;
          flex-wrap: wrap;
          gap: 4px 8px;
        }
        code {
          overflow-wrap: anywhere;
        }
        #older {
          color: var(--ga-danger);
        }
        details {
          margin: 8px 0;
        }
        summary {
          cursor: pointer;
        }
        #next {
          display: flex;
          align-items: flex-start;
          gap: 8px;
        }
        pre {
          margin: 4px 0;
          white-space: pre-wrap;
          overflow-wrap: anywhere;
        }
        ol {
          margin: 0;
          padding: 0;
          list-style: none;
        }
        li button {
          max-width: 100%;
          justify-content: flex-start;
          text-align: left;
        }
      </style>
      <header>
        <h2 id="title">[[text.verdict.title]]</h2>
        <span class="conclusion" data-conclusion$="[[verdict.conclusion]]" hidden$="[[!verdict]]"
          >[[_conclusion(verdict, text)]]</span
        >
        <button id="go" class="primary" hidden$="[[!suspects.length]]" on-click="_first">
          <ga-icon name="jump"></ga-icon>[[text.verdict.first]]
        </button>
      </header>
      <p>[[_sentence(verdict, text)]]</p>
      <p id="older" role="status" hidden$="[[!_older(state, text)]]">[[_older(state, text)]]</p>
      <p id="colours" class="muted" hidden$="[[!_isColoured(state)]]">[[text.verdict.colours]]</p>
      <p id="check" hidden$="[[!command]]">
        <span class="muted">[[text.verdict.check]]</span>
        <ga-copy value="[[command]]" label="[[text.verdict.copyCheck]]"></ga-copy>
        <code>[[command]]</code>
      </p>
      <ol hidden$="[[!_isLong(suspects)]]">
        <template is="dom-repeat" items="[[suspects]]">
          <li>
            <button class="plain" title="[[_evidence(item, text)]]" on-click="_go">
              <ga-icon name="jump"></ga-icon>
              <span class="muted">[[_place(item, text)]]</span>
              <span class="mono cut">[[_called(item, text)]]</span>
              <span class="muted mono cut">[[item.source]]</span>
              <span class="muted" hidden$="[[item.strong]]">[[text.verdict.weak]]</span>
            </button>
          </li>
        </template>
      </ol>
      <p id="more" class="muted" hidden$="[[!_more(verdict, text)]]">[[_more(verdict, text)]]</p>
      <details id="record" hidden$="[[!verdict.nextDump]]">
        <summary>[[_record(verdict, text)]]</summary>
        <p class="muted">[[text.verdict.recordHow]] [[_remark(verdict, text)]]</p>
        <div id="next">
          <ga-copy
            value="[[verdict.nextDump.config]]"
            label="[[text.verdict.copyConfig]]"
          ></ga-copy>
          <pre><code>[[verdict.nextDump.config]]</code></pre>
        </div>
      </details>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      verdict: { type: Object, computed: '_verdict(state)' },
      suspects: { type: Array, computed: '_suspects(verdict)' },
      command: { type: String, computed: '_command(verdict)' },
    };
  }

  declare state: AppState;
  declare verdict: Verdict | null;
  declare suspects: readonly Suspect[];
  declare command: string;

  _verdict(state: AppState): Verdict | null {
    return verdictOf(state) ?? null;
  }

  _suspects(verdict: Verdict | null): readonly Suspect[] {
    return eachCallOnce(verdict?.suspects ?? []).slice(0, SHOWN);
  }

  /** How many suspects are not listed. */
  _more(verdict: Verdict | null, text: Texts): string {
    const all = verdict?.suspects ?? [];
    const left = all.length - Math.min(SHOWN, eachCallOnce(all).length);
    return left > 0 ? text.verdict.more(formatCount(left)) : '';
  }

  /** What runs the first suspect again alone. */
  _command(verdict: Verdict | null): string {
    return verdict?.suspects[0]?.command ?? '';
  }

  /** That the verdict does not know all matches; empty while it does. */
  _older(state: AppState, text: Texts): string {
    return olderThanMatches(state, text);
  }

  /** Whether colours show errors though nothing is wrong: they do not know what rounding does. */
  _isColoured(state: AppState): boolean {
    const file = fileOf(state);
    if (file?.verdict?.conclusion !== 'clean') return false;
    return file.graphs.some(
      ({ worstGrade }) => worstGrade >= Grade.SERIOUS && worstGrade <= Grade.SEVERE,
    );
  }

  /** What is to be recorded next, and how much that takes. */
  _record(verdict: Verdict | null, text: Texts): string {
    const bytes = verdict?.nextDump?.bytes;
    return text.verdict.record(bytes === undefined ? '' : formatBytes(bytes));
  }

  _remark(verdict: Verdict | null, text: Texts): string {
    return text.verdict.tell(verdict?.nextDump?.remark ?? '');
  }

  _conclusion(verdict: Verdict | null, text: Texts): string {
    if (!verdict) return '';
    return translated<string>(text.verdict.conclusions, verdict.conclusion, verdict.conclusion);
  }

  _sentence(verdict: Verdict | null, text: Texts): string {
    return verdict ? text.verdict.tell(verdict.said) : text.verdict.none;
  }

  _evidence({ evidence }: Suspect, text: Texts): string {
    return text.verdict.tell(evidence);
  }

  /** A node; where none is to blame, what runs before it. */
  _called({ name, cause }: Suspect, text: Texts): string {
    return cause === 'unrecorded' ? text.verdict.before(name) : name;
  }

  _isLong(suspects: readonly Suspect[]): boolean {
    return suspects.length > 1;
  }

  _place({ step, rank }: Suspect, text: Texts): string {
    return text.find.place(step, rank);
  }

  _first(): void {
    this.show(this.suspects[0]);
  }

  _go(event: Event & { model: { item: Suspect } }): void {
    this.show(event.model.item);
  }

  private show(suspect: Suspect | undefined): void {
    if (!suspect) return;
    const detail = placeOf(suspect);
    this.dispatchEvent(new CustomEvent('show-node', { detail, bubbles: true, composed: true }));
  }
}

customElements.define('ga-verdict', GaVerdict);
