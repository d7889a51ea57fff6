import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Suspect } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import { isSelected, placeOf } from '../../session/verdict';
import { thumbnail } from '../parts/difference-picture';
import '../parts/ga-copy';
import '../parts/ga-icon';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { cardContent, type CardContent } from './card-content';
import { cardStyles } from './card-styles';

/** The verdict by the questions of who sees it first: where, what, how sure, what follows, what next. */
export class GaCard extends LocalizedElement {
  static get template() {
    return html`${controls}${cardStyles}
      <header>
        <h2 id="title" data-conclusion$="[[card.conclusion]]">[[card.title]]</h2>
        <span class="where" hidden$="[[!card.suspect]]">
          <span class="path mono" title="[[card.wholeModule]]" hidden$="[[!card.module]]"
            >[[card.module]] ›</span
          >
          <b id="culprit" class="mono">[[card.call]]</b>
          <span class="muted">[[card.place]]</span>
        </span>
        <button id="go" class="primary" hidden$="[[!_leads(state, card)]]" on-click="_go">
          <ga-icon name="jump"></ga-icon>[[text.verdict.first]]
        </button>
      </header>
      <p class="line" hidden$="[[!card.source]]">
        <code id="source">[[card.source]]</code><code id="code" class="muted">[[card.code]]</code>
      </p>
      <dl>
        <div hidden$="[[_lacksWhat(card)]]">
          <dt>[[text.verdict.what]]</dt>
          <template is="dom-repeat" items="[[card.differing]]">
            <dd class="large">
              <span class="name">[[_argument(item.name, text)]]</span>
              <span class="own mono" title="[[text.sides.debug]]">[[item.own]]</span> →
              <span class="mono" title="[[text.sides.reference]]">[[item.theirs]]</span>
            </dd>
          </template>
          <dd id="what">[[card.what]]</dd>
          <dd id="picture" title="[[text.where.title]]"></dd>
        </div>
        <div hidden$="[[!card.sure]]">
          <dt>[[text.verdict.sure]]</dt>
          <dd id="sure">[[card.sure]]</dd>
          <dd hidden$="[[!card.rival]]">
            <button id="rival" class="plain" on-click="_rival">[[card.rival.label]]</button>
          </dd>
        </div>
        <div hidden$="[[!card.follows]]">
          <dt>[[text.verdict.follows]]</dt>
          <dd id="follows">[[card.follows]]</dd>
        </div>
        <div hidden$="[[!card.command]]">
          <dt>[[text.verdict.next]]</dt>
          <dd>[[text.verdict.check]]</dd>
          <dd id="check">
            <ga-copy value="[[card.command]]" label="[[text.verdict.copyCheck]]"></ga-copy>
            <code>[[card.command]]</code>
          </dd>
        </div>
      </dl>
      <p id="limits" hidden$="[[!card.limits]]">[[text.verdict.limits]] [[card.limits]]</p>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      card: { type: Object, computed: '_card(state, text)', observer: '_cardChanged' },
    };
  }

  declare state: AppState;
  declare card: CardContent | null;

  readonly _card = kept(
    ({ catalog, view, graphs, detail, lead, selected }: AppState, text: Texts) => {
      return [
        catalog,
        view.file,
        view.page,
        view.step,
        view.rank,
        graphs,
        detail,
        lead,
        selected,
        text,
      ];
    },
    (state, text) => cardContent(state, text),
  );

  _cardChanged(card: CardContent | null): void {
    const picture = this.$['picture'] as HTMLElement;
    picture.replaceChildren(...(card?.slices ? [thumbnail(card.slices)] : []));
  }

  _argument(name: string, text: Texts): string {
    return text.verdict.argument(name);
  }

  _lacksWhat(card: CardContent | null): boolean {
    return !card || (card.what === '' && card.differing.length === 0);
  }

  /** Nowhere to go where one is. */
  _leads(state: AppState, card: CardContent | null): boolean {
    const suspect = card?.suspect;
    return Boolean(suspect && (state.view.page === 'overview' || !isSelected(state, suspect)));
  }

  _go(): void {
    this.show(this.card?.suspect);
  }

  _rival(): void {
    this.show(this.card?.rival?.suspect);
  }

  private show(suspect: Suspect | null | undefined): void {
    if (!suspect) return;
    const detail = placeOf(suspect);
    this.dispatchEvent(new CustomEvent('show-node', { detail, bubbles: true, composed: true }));
  }
}

customElements.define('ga-card', GaCard);
