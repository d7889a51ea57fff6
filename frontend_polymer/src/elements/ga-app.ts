import { html } from '@polymer/polymer/polymer-element.js';

import { AddressBar } from '../address-bar';
import { paletteOf } from '../canvas/palette';
import { Grade } from '../generated/graph_pb';
import { initialLanguage, setLanguage, type Texts } from '../i18n';
import type { NodeRef } from '../layout/hierarchy';
import { fileOf, hasBench, Session, type AppState } from '../session';
import type { ViewState } from '../state';

import {
  hostTheme,
  onHostThemeChange,
  rememberThemeChoice,
  storedThemeChoice,
  type Theme,
  type ThemeChoice,
} from '../theme';
import { copyText } from './ga-copy';
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
import './ga-notice';
import './ga-progress';
import type { GaToast } from './ga-toast';
import './ga-toast';
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
        .stage {
          position: relative;
          flex: 1;
          min-height: 0;
          display: flex;
          flex-direction: column;
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
          inset: 0;
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
        on-copy-link="_copyLink"
        is-list-open="{{isListOpen}}"
        on-step-hit="_stepHit"
      ></ga-toolbar>
      <ga-notice session="[[session]]" state="[[state]]"></ga-notice>
      <div class="stage">
        <main inert$="[[_isOverview(state)]]">
          <ga-progress active="[[_busy(state)]]" message="[[_waiting(state, text)]]"></ga-progress>
          <ga-view-tools
            session="[[session]]"
            state="[[state]]"
            zoom="[[zoom]]"
            layers="[[layers]]"
            on-view-command="_run"
          ></ga-view-tools>
          <div class="graph" hidden$="[[_message(state)]]">
            <ga-hierarchy
              id="hierarchy"
              hidden$="[[_message(state)]]"
              session="[[session]]"
              state="[[state]]"
              theme="[[theme]]"
              zoom="{{zoom}}"
              layers="{{layers}}"
              on-look-change="_lookChanged"
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
            on-show-file="_showFile"
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
      </div>
      <ga-help id="helpDialog"></ga-help>
      <ga-toast id="toast"></ga-toast>`;
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
      layers: { type: Object, value: null },
    };
  }

  declare session: Session;
  declare state: AppState;
  declare themeChoice: ThemeChoice;
  declare theme: Theme;
  declare isListOpen: boolean;
  private address!: AddressBar;
  private malformed: readonly string[] = [];
  private readonly cleanups: (() => void)[] = [];

  override ready(): void {
    setLanguage(initialLanguage());
    this.address = new AddressBar(() => this.currentView(this.state.view));
    const { view, malformed } = this.address.read();
    this.session = new Session(view);
    this.malformed = malformed;
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
      this.address.onChange(({ view, malformed }) => {
        void this.session.follow(view).then(() => this.missMalformed(malformed));
      }),
      this.session.store.subscribe((state, previous) => this.stateChanged(state, previous)),
    );
    this.addEventListener('focus-graph', () => this.hierarchy.focusGraph());
    this.addEventListener('say', (event) => this.say((event as CustomEvent<string>).detail));
    void this.session.refresh().then(() => this.missMalformed(this.malformed));
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
    const node = this.session.finding.choose(event.detail);
    if (node) this.goTo(node);
  }

  _listShown(state: AppState, isOpen: boolean): boolean {
    return isOpen && !this._message(state);
  }

  _goTo(event: CustomEvent<NodeRef>): void {
    this.goTo(event.detail);
  }

  _showFile(event: CustomEvent<string>): void {
    void this.session.open({ file: event.detail, page: 'auto', node: '' });
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

  async _copyLink(): Promise<void> {
    const { shell } = this.text;
    const isShort = this.hierarchy.look?.openInView !== undefined;
    const isCopied = await copyText(this.address.link());
    this.say(!isCopied ? shell.linkFailed : isShort ? shell.linkShortened : shell.linkCopied);
  }

  /** The node to match the selected one with is chosen in the graph, or it is said why not. */
  private pickPartner(): void {
    const { match } = this.text;
    const { selected, graphs, pick } = this.state;
    const graph = selected && graphs?.[selected.side];
    if (!hasBench(this.state)) this.say(match.notComparable);
    else if (!fileOf(this.state)?.writable) this.say(match.readOnly);
    else if (!graph || graph.gradeOf(selected.index) !== Grade.UNMATCHED) this.say(match.needsFree);
    else this.session.startPick();
    if (!pick && this.state.pick) this.hierarchy.focusGraph();
  }

  private say(message: string): void {
    (this.$['toast'] as GaToast).say(message);
  }

  _lookChanged(): void {
    this.address.touch();
  }

  private stateChanged(state: AppState, previous: AppState): void {
    const isJump = state.jumps !== previous.jumps;
    this.state = state;
    if (state.view !== previous.view) {
      this.address.write(this.currentView(state.view), isJump);
    }
  }

  /** The view with what is unfolded now, or will be once the graph is there. */
  private currentView(view: ViewState): ViewState {
    return { ...view, look: this.hierarchy.look ?? view.look };
  }

  private missMalformed(malformed: readonly string[]): void {
    this.session.miss(malformed.map((wanted) => ({ kind: 'malformed', wanted })));
  }

  private get hierarchy(): GaHierarchy {
    return this.$['hierarchy'] as unknown as GaHierarchy;
  }

  private applyTheme(): void {
    this.theme = this.themeChoice === 'auto' ? hostTheme() : this.themeChoice;
  }

  private stepHit(direction: 1 | -1): void {
    const node = this.session.finding.step(direction);
    if (node) this.goTo(node);
  }

  private goTo(node: NodeRef): void {
    void this.session.select(node);
    this.hierarchy.reveal(node);
  }

  /** Keys that work wherever the focus is, unless it is in a field to type in. */
  private key(event: KeyboardEvent): void {
    const [target] = event.composedPath();
    const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const everywhere: Record<string, () => void> = {
      '?': () => this._help(),
      o: () => this._overview(),
    };
    const inGraph: Record<string, () => void> = {
      '/': () => (this.$['toolbar'] as GaToolbar).focusSearch(),
      n: () => this.stepHit(1),
      p: () => this.stepHit(-1),
      m: () => this.pickPartner(),
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
