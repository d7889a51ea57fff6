import { html } from '@polymer/polymer/polymer-element.js';

import { Grade, Side, type Verdict } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { hasBench, pairOf, type AppState } from '../../session/app-state';
import { isLittleInCommon } from '../../session/verdict';
import { olderThanMatches, suspectPosition, verdictOf } from '../../session/verdict';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** The verdict in one line above the graph, and the ways to suspects and errors. */
export class GaVerdictLine extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 4px;
          flex: none;
          min-height: 32px;
          padding: 0 8px 0 12px;
          background: var(--ga-surface);
          border-bottom: 1px solid var(--ga-border);
        }
        .little {
          display: flex;
          align-items: center;
          gap: 6px;
          flex: 0 1 auto;
          padding: 2px 8px;
          border-radius: 6px;
          background: var(--ga-danger-soft);
          color: var(--ga-danger);
        }
        .sentence {
          min-width: 120px;
          flex: 1;
          display: -webkit-box;
          overflow: hidden;
          line-height: 1.35;
          overflow-wrap: anywhere;
          -webkit-box-orient: vertical;
          -webkit-line-clamp: 2;
        }
        button.icon {
          height: 26px;
        }
        @media (max-width: 760px) {
          :host {
            flex-wrap: wrap;
          }
          .sentence {
            flex-basis: 240px;
          }
        }
        .walk {
          display: flex;
          align-items: center;
          flex: none;
          padding-left: 8px;
          font-variant-numeric: tabular-nums;
        }
      </style>
      <span class="little" role="status" hidden$="[[!_little(state, text)]]"
        ><ga-icon name="warning"></ga-icon>[[_little(state, text)]]</span
      >
      <span id="older" class="little" role="status" hidden$="[[!_older(state, text)]]"
        ><ga-icon name="warning"></ga-icon>[[_older(state, text)]]</span
      >
      <strong>[[_title(state, text)]]:</strong>
      <span class="sentence" title="[[_sentence(state, verdict, text)]]"
        >[[_sentence(state, verdict, text)]]</span
      >
      <span class="walk" hidden$="[[!_count(verdict)]]">
        <span class="muted">[[text.verdict.suspect]] [[_position(state, verdict)]]</span>
        <button
          id="previousSuspect"
          class="icon plain"
          title="[[text.verdict.previousSuspect]] (V)"
          aria-label="[[text.verdict.previousSuspect]]"
          on-click="_previousSuspect"
        >
          <ga-icon name="previous"></ga-icon></button
        ><button
          id="nextSuspect"
          class="icon plain"
          title="[[text.verdict.nextSuspect]] (v)"
          aria-label="[[text.verdict.nextSuspect]]"
          on-click="_nextSuspect"
        >
          <ga-icon name="next"></ga-icon>
        </button>
      </span>
      <span class="walk" hidden$="[[!_hasErrors(state.graphs)]]">
        <span class="muted">[[text.details.error]]</span>
        <button
          id="previousError"
          class="icon plain"
          title="[[text.verdict.previousError]] (E)"
          aria-label="[[text.verdict.previousError]]"
          on-click="_previousError"
        >
          <ga-icon name="previous"></ga-icon></button
        ><button
          id="nextError"
          class="icon plain"
          title="[[text.verdict.nextError]] (e)"
          aria-label="[[text.verdict.nextError]]"
          on-click="_nextError"
        >
          <ga-icon name="next"></ga-icon>
        </button>
      </span>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      verdict: { type: Object, computed: '_verdict(state)' },
      hidden: { type: Boolean, reflectToAttribute: true, computed: '_isHidden(state)' },
    };
  }

  declare state: AppState;
  declare verdict: Verdict | null;

  _isHidden(state: AppState): boolean {
    return (!hasBench(state) && !verdictOf(state)) || state.graphs === null;
  }

  _verdict(state: AppState): Verdict | null {
    return verdictOf(state) ?? null;
  }

  /** The first suspect is what the verdict itself is about. */
  _title(state: AppState, text: Texts): string {
    const at = suspectPosition(state);
    return at > 0 ? `${text.verdict.suspect} ${at + 1}` : text.verdict.title;
  }

  /** The verdict, or what speaks against the suspect that was walked to. */
  _sentence(state: AppState, verdict: Verdict | null, text: Texts): string {
    if (!verdict) return text.verdict.none;
    const at = suspectPosition(state);
    const suspect = verdict.suspects[at];
    if (at < 1 || !suspect) return text.verdict.tell(verdict.said);
    const { name, source, cause, evidence } = suspect;
    const called = cause === 'unrecorded' ? text.verdict.before(name) : name;
    return `${called}${source ? ` (${source})` : ''}: ${text.verdict.tell(evidence)}`;
  }

  /** Where few nodes have a counterpart, nothing else on the page means much. */
  _little(state: AppState, text: Texts): string {
    const pair = pairOf(state);
    if (!pair || !isLittleInCommon(pair)) return '';
    const share = 100 * (1 - pair.npuUnmatched / pair.npuNodes);
    return text.verdict.little(`${share.toFixed(share < 10 ? 1 : 0)} %`);
  }

  _older(state: AppState, text: Texts): string {
    return olderThanMatches(state, text);
  }

  _count(verdict: Verdict | null): number {
    return verdict?.suspects.length ?? 0;
  }

  _position(state: AppState, verdict: Verdict | null): string {
    const at = suspectPosition(state);
    const total = String(verdict?.suspects.length ?? 0);
    return at < 0 ? total : `${at + 1} / ${total}`;
  }

  _hasErrors(graphs: AppState['graphs']): boolean {
    return (graphs?.[Side.NPU].worstGrade(0) ?? Grade.UNGRADED) > Grade.OK;
  }

  _previousSuspect(): void {
    this.send('step-suspect', -1);
  }

  _nextSuspect(): void {
    this.send('step-suspect', 1);
  }

  _previousError(): void {
    this.send('step-error', -1);
  }

  _nextError(): void {
    this.send('step-error', 1);
  }

  private send(type: string, detail: 1 | -1): void {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

customElements.define('ga-verdict-line', GaVerdictLine);
