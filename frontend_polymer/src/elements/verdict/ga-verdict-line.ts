import { html } from '@polymer/polymer/polymer-element.js';

import { Grade, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { hasBench, pairOf, type AppState } from '../../session/app-state';
import { isLittleInCommon } from '../../session/verdict';
import { olderThanMatches, suspectPosition, verdictOf } from '../../session/verdict';
import '../parts/ga-icon';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { briefOf, cardContent, type CardContent } from './card-content';
import './ga-card';
import { lineStyles } from './line-styles';

/** The verdict in one line above the graph, the card behind it, and the ways to suspects and errors. */
export class GaVerdictLine extends LocalizedElement {
  static get template() {
    return html`${controls}${lineStyles}
      <span class="little" role="status" hidden$="[[!_little(state, text)]]"
        ><ga-icon name="warning"></ga-icon
        ><span class="cut" title="[[_little(state, text)]]">[[_little(state, text)]]</span></span
      >
      <span id="older" class="little" role="status" hidden$="[[!_older(state, text)]]"
        ><ga-icon name="warning"></ga-icon
        ><span class="cut" title="[[_older(state, text)]]">[[_older(state, text)]]</span></span
      >
      <span class="muted cut" hidden$="[[card]]">[[text.verdict.none]]</span>
      <button
        id="full"
        class="plain"
        hidden$="[[!card]]"
        aria-expanded$="[[_word(isOpen)]]"
        title="[[text.verdict.card]] (j)"
        on-click="toggle"
      >
        <span class="chip" data-conclusion$="[[card.conclusion]]"
          >[[_chip(state, card, text)]]</span
        >
        <span class="sentence cut"
          ><b class="mono">[[card.call]]</b> <span class="mono muted">[[card.source]]</span>
          <span class="muted" hidden$="[[!card.call]]">·</span> [[_brief(card, text)]]
          <span class="mono muted">[[card.code]]</span></span
        >
        <ga-icon name="[[_arrow(isOpen)]]"></ga-icon>
      </button>
      <div id="card" hidden$="[[!isOpen]]" tabindex="-1" on-keydown="_key">
        <ga-card state="[[state]]"></ga-card>
      </div>
      <span class="walk" hidden$="[[!_count(state)]]">
        <span class="muted">[[_position(state)]]</span>
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
      <span class="walk errors" hidden$="[[!_hasErrors(state.graphs)]]">
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
      card: { type: Object, computed: '_card(state, text)' },
      isOpen: { type: Boolean, value: false },
      hidden: { type: Boolean, reflectToAttribute: true, computed: '_isHidden(state)' },
    };
  }

  declare state: AppState;
  declare card: CardContent | null;
  declare isOpen: boolean;
  private readonly pressed = (event: Event) => {
    if (!event.composedPath().includes(this)) this.isOpen = false;
  };

  override connectedCallback(): void {
    super.connectedCallback();
    window.addEventListener('pointerdown', this.pressed);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.removeEventListener('pointerdown', this.pressed);
  }

  /** Shows or hides the card, which lies over the graph. */
  toggle(): void {
    this.isOpen = !this.isOpen && this.card !== null;
    if (this.isOpen) (this.$['card'] as HTMLElement).focus();
  }

  _key(event: KeyboardEvent): void {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    this.isOpen = false;
    (this.$['full'] as HTMLElement).focus();
  }

  _isHidden(state: AppState): boolean {
    return (!hasBench(state) && !verdictOf(state)) || state.graphs === null;
  }

  readonly _card = kept(
    ({ catalog, view, graphs, detail, lead, selected }: AppState, text: Texts) => {
      const place = [view.file, view.page, view.step, view.rank];
      return [catalog, ...place, graphs, detail, lead, selected, text];
    },
    (state, text) => cardContent(state, text),
  );

  /** The first suspect is what the verdict itself is about. */
  _chip(state: AppState, card: CardContent | null, text: Texts): string {
    const at = suspectPosition(state);
    return at > 0 ? `${text.verdict.suspect} ${at + 1}` : (card?.title ?? '');
  }

  _brief(card: CardContent | null, text: Texts): string {
    return card ? briefOf(card, text) : '';
  }

  /** Where few nodes have a counterpart, nothing else on the page means much. */
  readonly _little = kept((state: AppState, text: Texts) => {
    return [pairOf(state), state.graphs, text];
  }, littleCompared);

  _older(state: AppState, text: Texts): string {
    return olderThanMatches(state, text);
  }

  _count(state: AppState): number {
    return verdictOf(state)?.suspects.length ?? 0;
  }

  _position(state: AppState): string {
    const at = suspectPosition(state);
    const total = String(this._count(state));
    return at < 0 ? total : `${at + 1} / ${total}`;
  }

  _hasErrors(graphs: AppState['graphs']): boolean {
    return (graphs?.[Side.NPU].worstGrade(0) ?? Grade.UNGRADED) > Grade.OK;
  }

  _word(value: boolean): string {
    return String(value);
  }

  _arrow(isOpen: boolean): string {
    return isOpen ? 'up' : 'down';
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

/** Calls that only together have a counterpart are compared as well. */
function littleCompared(state: AppState, text: Texts): string {
  const pair = pairOf(state);
  if (!pair || !isLittleInCommon(pair)) return '';
  const grouped = state.graphs?.[Side.NPU].group.filter((place) => place >= 0).length ?? 0;
  const npuUnmatched = pair.npuUnmatched - grouped;
  if (!isLittleInCommon({ ...pair, npuUnmatched })) return '';
  const share = 100 * (1 - npuUnmatched / pair.npuNodes);
  return text.verdict.little(`${share.toFixed(share < 10 ? 1 : 0)} %`);
}

customElements.define('ga-verdict-line', GaVerdictLine);
