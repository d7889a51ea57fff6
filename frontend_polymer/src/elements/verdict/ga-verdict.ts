import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { type Suspect, type Verdict } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import { eachCallOnce, olderThanMatches, placeOf, verdictOf } from '../../session/verdict';
import { formatBytes, formatCount } from '../parts/format';
import '../parts/ga-copy';
import './ga-card';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** More than these, the first in its card, nobody reads; the keys reach the others. */
const SHOWN = 5;

/** What the build concludes of all steps and ranks, and a way to each suspect. */
export class GaVerdict extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
        }
        p {
          margin: 8px 0;
          max-width: 100ch;
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
        h3 {
          margin: 12px 0 0;
          font: 400 12px/20px var(--ga-font);
          color: var(--ga-muted);
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
        @media (max-width: 700px) {
          li button {
            flex-wrap: wrap;
            gap: 0 6px;
            height: auto;
            padding: 3px 0;
          }
          li .cut {
            white-space: normal;
            overflow-wrap: anywhere;
          }
        }
      </style>
      <ga-card state="[[state]]" hidden$="[[!verdict]]"></ga-card>
      <p hidden$="[[verdict]]">[[text.verdict.none]]</p>
      <p id="older" role="status" hidden$="[[!_older(state, text)]]">[[_older(state, text)]]</p>
      <h3 hidden$="[[!suspects.length]]">[[text.verdict.others]]</h3>
      <ol hidden$="[[!suspects.length]]">
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
    };
  }

  declare state: AppState;
  declare verdict: Verdict | null;
  declare suspects: readonly Suspect[];

  _verdict(state: AppState): Verdict | null {
    return verdictOf(state) ?? null;
  }

  _suspects(verdict: Verdict | null): readonly Suspect[] {
    return eachCallOnce(verdict?.suspects ?? []).slice(1, SHOWN);
  }

  /** How many suspects are not listed. */
  _more(verdict: Verdict | null, text: Texts): string {
    const all = verdict?.suspects ?? [];
    const left = all.length - Math.min(SHOWN, eachCallOnce(all).length);
    return left > 0 ? text.verdict.more(formatCount(left)) : '';
  }

  /** That the verdict does not know all matches; empty while it does. */
  _older(state: AppState, text: Texts): string {
    return olderThanMatches(state, text);
  }

  /** What is to be recorded next, and how much that takes. */
  _record(verdict: Verdict | null, text: Texts): string {
    const bytes = verdict?.nextDump?.bytes;
    return text.verdict.record(bytes === undefined ? '' : formatBytes(bytes));
  }

  _remark(verdict: Verdict | null, text: Texts): string {
    return text.verdict.tell(verdict?.nextDump?.remark ?? '');
  }

  _evidence({ evidence }: Suspect, text: Texts): string {
    return text.verdict.tell(evidence);
  }

  /** A node; where none is to blame, what runs before it. */
  _called({ name, cause }: Suspect, text: Texts): string {
    return cause === 'unrecorded' ? text.verdict.before(name) : name;
  }

  _place({ step, rank }: Suspect, text: Texts): string {
    return text.find.place(step, rank);
  }

  _go(event: Event & { model: { item: Suspect } }): void {
    const detail = placeOf(event.model.item);
    this.dispatchEvent(new CustomEvent('show-node', { detail, bubbles: true, composed: true }));
  }
}

customElements.define('ga-verdict', GaVerdict);
