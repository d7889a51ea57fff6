import { html } from '@polymer/polymer/polymer-element.js';

import { onAddressChange, readAddress, writeAddress } from '../address';
import { paletteOf } from '../canvas/palette';
import { initialLanguage, setLanguage, type Texts } from '../i18n';
import type { NodeRef } from '../layout/hierarchy';
import { fileOf, Session, type AppState } from '../session';

import {
  hostTheme,
  onHostThemeChange,
  rememberThemeChoice,
  storedThemeChoice,
  type Theme,
  type ThemeChoice,
} from '../theme';
import './ga-details';
import type { GraphPlace } from './ga-overview';
import './ga-overview';
import './ga-find';
import type { GaHelp } from './ga-help';
import './ga-help';
import type { GaHierarchy } from './ga-hierarchy';
import './ga-hierarchy';
import './ga-legend';
import './ga-message';
import './ga-progress';
import type { GaToolbar } from './ga-toolbar';
import './ga-toolbar';
import type { ViewCommand } from './ga-view-tools';
import './ga-view-tools';
import { LocalizedElement } from './localized';
import { controls, tokens } from './styles';

/** The whole viewer: puts the parts together and passes the state of the session down. */
export class GaApp extends LocalizedElement {
  static get template() {
    return html`${tokens}${controls}
      <style>
        :host {
          display: flex;
          flex-direction: column;
          height: 100vh;
          background: var(--ga-background);
          position: relative;
        }
        main {
          flex: 1;
          min-height: 0;
          display: flex;
          flex-direction: column;
          position: relative;
        }
        .graph {
          flex: 1;
          min-height: 0;
          display: flex;
        }
        ga-hierarchy {
          min-width: 0;
        }
        ga-overview {
          position: absolute;
          z-index: 10;
          inset: 48px 0 0;
        }
        ga-hierarchy,
        ga-message {
          flex: 1;
          min-height: 0;
        }
      </style>
      <ga-toolbar
        id="toolbar"
        role="banner"
        session="[[session]]"
        state="[[state]]"
        theme-choice="[[themeChoice]]"
        on-theme-choice="_themeChosen"
        on-help="_help"
        on-overview="_overview"
        is-list-open="{{isListOpen}}"
        on-step-hit="_stepHit"
      ></ga-toolbar>
      <main inert$="[[_isOverview(state)]]">
        <ga-progress active="[[_busy(state)]]" message="[[_waiting(state, text)]]"></ga-progress>
        <ga-view-tools
          state="[[state]]"
          zoom="[[zoom]]"
          sync="{{sync}}"
          on-view-command="_run"
        ></ga-view-tools>
        <div class="graph" hidden$="[[_message(state)]]">
          <ga-hierarchy
            id="hierarchy"
            hidden$="[[_message(state)]]"
            session="[[session]]"
            state="[[state]]"
            theme="[[theme]]"
            sync="[[sync]]"
            zoom="{{zoom}}"
          ></ga-hierarchy>
          <ga-find
            role="region"
            aria-label$="[[text.find.panel]]"
            hidden$="[[!_listShown(state, isListOpen)]]"
            session="[[session]]"
            state="[[state]]"
            on-choose-hit="_chooseHit"
          ></ga-find>
        </div>
        <ga-message
          hidden$="[[!_message(state)]]"
          problem="[[state.problem]]"
          catalog="[[state.catalog]]"
          file="[[state.view.file]]"
          on-retry="_retry"
        ></ga-message>
        <ga-legend
          aria-label$="[[text.legend.label]]"
          hidden$="[[_message(state)]]"
          session="[[session]]"
          state="[[state]]"
          on-step-hit="_stepHit"
        ></ga-legend>
      </main>
      <ga-details
        id="details"
        inert$="[[_isOverview(state)]]"
        role="region"
        aria-label$="[[text.details.label]]"
        session="[[session]]"
        state="[[state]]"
        hidden$="[[_message(state)]]"
        on-go-to="_goTo"
      ></ga-details>
      <ga-overview
        id="overview"
        hidden$="[[!_isOverview(state)]]"
        role="region"
        aria-label$="[[text.overview.label]]"
        state="[[state]]"
        on-enter="_enter"
      ></ga-overview>
      <ga-help id="helpDialog"></ga-help>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      themeChoice: { type: String, value: storedThemeChoice },
      theme: { type: String, reflectToAttribute: true, observer: '_themeChanged' },
      isListOpen: { type: Boolean, value: false },
      zoom: { type: Number, value: 1 },
      sync: { type: Boolean, value: true },
    };
  }

  declare session: Session;
  declare state: AppState;
  declare themeChoice: ThemeChoice;
  declare theme: Theme;
  declare isListOpen: boolean;
  private readonly cleanups: (() => void)[] = [];

  override ready(): void {
    setLanguage(initialLanguage());
    this.session = new Session(readAddress());
    this.state = this.session.state;
    this.applyTheme();
    super.ready();
  }

  override connectedCallback(): void {
    super.connectedCallback();
    const onKey = (event: KeyboardEvent) => this.key(event);
    window.addEventListener('keydown', onKey);
    this.cleanups.push(
      () => window.removeEventListener('keydown', onKey),
      onHostThemeChange(() => this.applyTheme()),
      onAddressChange((view) => void this.session.follow(view)),
      this.session.store.subscribe((state, previous) => {
        this.state = state;
        if (state.view !== previous.view) writeAddress(state.view);
      }),
    );
    void this.session.refresh();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const cleanup of this.cleanups.splice(0)) cleanup();
  }

  /** What the canvas shows, for tests: the boxes in view of both sides, top to bottom. */
  get scene() {
    return this.hierarchy.scene;
  }

  /** The tree items that screen readers get, for tests. */
  get outline(): Element[] {
    return this.hierarchy.outline;
  }

  _themeChosen(event: CustomEvent<ThemeChoice>): void {
    this.themeChoice = event.detail;
    rememberThemeChoice(event.detail);
    this.applyTheme();
  }

  /** The grades have the same colours in tables and legend as on the canvas. */
  _themeChanged(theme: Theme): void {
    const { tones } = paletteOf(theme);
    for (const [grade, tone] of tones.entries()) {
      for (const part of ['fill', 'stroke', 'text', 'solid'] as const) {
        this.style.setProperty(`--ga-grade-${grade}-${part}`, tone[part]);
      }
    }
  }

  _help(): void {
    (this.$['helpDialog'] as GaHelp).open();
  }

  /** Whether all steps and ranks are shown, on top of the graph. */
  _isOverview(state: AppState): boolean {
    return state.view.page === 'overview' && fileOf(state) !== undefined && !this._message(state);
  }

  _overview(): void {
    const { view } = this.state;
    if (view.page === 'overview') void this.session.enter(view.step, view.rank);
    else this.session.showOverview();
  }

  _enter(event: CustomEvent<GraphPlace>): void {
    void this.session.enter(event.detail.step, event.detail.rank);
  }

  _run(event: CustomEvent<ViewCommand>): void {
    this.hierarchy.run(event.detail);
  }

  _stepHit(event: CustomEvent<1 | -1>): void {
    this.stepHit(event.detail);
  }

  _chooseHit(event: CustomEvent<number>): void {
    const node = this.session.chooseHit(event.detail);
    if (node) this.goTo(node);
  }

  _listShown(state: AppState, isOpen: boolean): boolean {
    return isOpen && !this._message(state);
  }

  _goTo(event: CustomEvent<NodeRef>): void {
    this.goTo(event.detail);
  }

  _retry(): void {
    void this.session.refresh();
  }

  _busy(state: AppState): boolean {
    return state.busy !== null || state.detailBusy;
  }

  _waiting(state: AppState, text: Texts): string {
    return state.busy === null ? '' : text.progress[state.busy];
  }

  /** Whether there is something to say instead of a graph. */
  _message(state: AppState): boolean {
    return state.problem !== null || (state.catalog?.files.length === 0 && state.busy === null);
  }

  private get hierarchy(): GaHierarchy {
    return this.$['hierarchy'] as unknown as GaHierarchy;
  }

  private applyTheme(): void {
    this.theme = this.themeChoice === 'auto' ? hostTheme() : this.themeChoice;
  }

  private stepHit(direction: 1 | -1): void {
    const node = this.session.stepHit(direction);
    if (node) this.goTo(node);
  }

  private goTo(node: NodeRef): void {
    this.hierarchy.reveal(node);
    void this.session.select(node);
  }

  /** Keys that work wherever the focus is, unless it is in a field to type in. */
  private key(event: KeyboardEvent): void {
    const [target] = event.composedPath();
    const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    const isInDialog = event.composedPath().some((part) => part instanceof HTMLDialogElement);
    if (isTyping || isInDialog || event.ctrlKey || event.metaKey || event.altKey) return;
    const everywhere: Record<string, () => void> = {
      '?': () => this._help(),
      o: () => this._overview(),
    };
    const inGraph: Record<string, () => void> = {
      '/': () => (this.$['toolbar'] as GaToolbar).focusSearch(),
      n: () => this.stepHit(1),
      p: () => this.stepHit(-1),
      N: () => this.stepHit(-1),
      '.': () => this.stepHit(1),
      ',': () => this.stepHit(-1),
      // Otherwise the key is the browser's own, which closes a dialog with it.
      ...(this.state.pick ? { Escape: () => this.session.endPick(null) } : {}),
      l: () => (this.isListOpen = !this.isListOpen),
    };
    const isOverview = this._isOverview(this.state);
    const action = everywhere[event.key] ?? (isOverview ? undefined : inGraph[event.key]);
    if (!action) return;
    event.preventDefault();
    action();
  }
}

customElements.define('ga-app', GaApp);
