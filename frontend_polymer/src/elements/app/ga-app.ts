import { html } from '@polymer/polymer/polymer-element.js';

import { browserFetch, type Fetch } from '../../data/api';
import { AddressBar } from '../../session/address-bar';
import { answersIn } from '../../session/page-answers';
import { isFocusFree, onReturn } from '../../session/returning';
import { paletteOf, type Palette } from '../../canvas/palette';
import type { GradeBand, MatchAction } from '../../generated/graph_pb';
import { initialLanguage, nameSides, setLanguage, type Texts } from '../../i18n';
import type { NodeRef } from '../../layout/hierarchy';
import { fileOf, type AppState } from '../../session/app-state';
import { Session } from '../../session/session';
import { selectAt, type NodePlace, type Step } from '../../session/finding';
import { nextColours } from '../../session/colours';
import type { ViewState } from '../../session/state';
import {
  forcedTheme,
  hostTheme,
  onHostThemeChange,
  rememberThemeChoice,
  storedThemeChoice,
  type Theme,
  type ThemeChoice,
} from '../../session/theme';
import { WindowTitle } from '../../session/window-title';
import { appParts } from './app-parts';
import { appStyles } from './app-styles';
import { Agreement } from './agreement';
import { commandsOf, placesOf, type Command, type CommandTarget } from './commands';
import { copyText } from '../parts/copy-text';
import { focusLater, ownsFocus } from '../parts/focus';
import type { GraphPlace } from '../overview/ga-overview';
import type { GaDetails } from '../details/ga-details';
import type { GaVerdictLine } from '../verdict/ga-verdict-line';
import { commandOf } from './keyboard';
import type { GaHelp } from './ga-help';
import type { GaHierarchy } from '../graph/ga-hierarchy';
import type { GaPalette } from './ga-palette';
import type { GaToast } from '../parts/ga-toast';
import type { GaToolbar } from './ga-toolbar';
import type { ViewCommand } from '../graph/ga-view-tools';
import { LocalizedElement } from '../parts/localized';
import { setGradeColours } from '../parts/grade-style';
import { judge } from '../match/judge';
import { pickRefusal } from '../match/match-choices';
import { controls, tokens } from '../parts/styles';
import { takeBack, type TakeBack } from '../match/take-back';
import { enterGraph, findBelow, stepError, stepSuspect, type Walker } from './walks';
import { shownPlace } from './window-words';

/** Before the catalogue is there. */
const NO_BANDS: readonly GradeBand[] = [];

/** The whole viewer: puts the parts together and passes the state of the session down. */
export class GaApp extends LocalizedElement implements CommandTarget {
  static get template() {
    return html`${tokens}${controls}${appStyles}${appParts}`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      themeChoice: { type: String, value: storedThemeChoice },
      theme: { type: String, reflectToAttribute: true },
      palette: { type: Object, computed: '_palette(theme, bands)', observer: '_paletteChanged' },
      bands: { type: Array, computed: '_bands(state)' },
      isListOpen: { type: Boolean, value: false },
      zoom: { type: Number, value: 1 },
      layers: { type: Object, value: null },
    };
  }

  /** How requests leave. */
  fetch: Fetch = browserFetch;
  declare session: Session;
  declare state: AppState;
  declare themeChoice: ThemeChoice;
  declare theme: Theme;
  declare palette: Palette;
  declare isListOpen: boolean;
  private address!: AddressBar;
  private readonly agreement = new Agreement();
  private readonly windowTitle = new WindowTitle();
  private malformed: readonly string[] = [];
  private readonly cleanups: (() => void)[] = [];

  override ready(): void {
    setLanguage(initialLanguage());
    this.address = new AddressBar(() => this.currentView(this.state.view));
    const { view, malformed } = this.address.read();
    this.session = new Session(view, answersIn(document) ?? this.fetch);
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
      onReturn(() => void this.session.lookAround()),
      () => this.windowTitle.end(),
    );
    this.addEventListener('focus-graph', (event) => {
      if (ownsFocus(event.composedPath()[0] as Element)) this.hierarchy.focusGraph();
    });
    this.addEventListener('judge', (event) => {
      this.judge((event as CustomEvent<MatchAction>).detail);
    });
    this.addEventListener('say', (event) => this.say((event as CustomEvent<string>).detail));
    void this.session.refresh().then(() => {
      this.missMalformed(this.malformed);
      if (this.state.graphs && isFocusFree()) this.hierarchy.focusGraph();
    });
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

  _bands(state: AppState): readonly GradeBand[] {
    return fileOf(state)?.bands ?? NO_BANDS;
  }

  _palette(theme: Theme, bands: readonly GradeBand[]): Palette {
    return paletteOf(theme, bands);
  }

  /** The grades have the same colours in tables and legend as on the canvas. */
  _paletteChanged(palette: Palette): void {
    setGradeColours(this, palette);
  }

  /** Whether all steps and ranks are shown, on top of the graph. */
  _isOverview(state: AppState): boolean {
    return state.view.page === 'overview' && fileOf(state) !== undefined && !this._message(state);
  }

  readonly _stepSuspect = (event: CustomEvent<1 | -1>) => stepSuspect(this.walker, event.detail);
  readonly _stepError = (event: CustomEvent<1 | -1>) => stepError(this.walker, event.detail);

  _showNode(event: CustomEvent<NodePlace>): void {
    this.showNode(event.detail);
  }

  /** Keys work in the graph as soon as it is there. */
  private enter({ step, rank }: GraphPlace): void {
    void this.session.enter(step, rank).then(this.focusGraphLater());
  }

  private showNode(place: NodePlace): void {
    void this.session.goTo(place).then(this.focusGraphLater());
  }

  _enter(event: CustomEvent<GraphPlace>): void {
    this.enter(event.detail);
  }

  readonly _run = (event: CustomEvent<ViewCommand>) => this.runView(event.detail);

  _stepHit(event: CustomEvent<1 | -1>): void {
    this.stepHit(event.detail);
  }

  _chooseHit(event: CustomEvent<number>): void {
    this.goTo((hits) => hits.choose(event.detail));
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

  private say(message: string): void {
    (this.$['toast'] as GaToast).say(message);
  }

  _lookChanged(): void {
    this.address.touch();
  }

  private stateChanged(state: AppState, previous: AppState): void {
    const isJump = state.jumps !== previous.jumps;
    const file = fileOf(state);
    // Before anything is made with other words.
    if (file) nameSides({ debug: file.npuName, reference: file.benchName });
    this.state = state;
    this.windowTitle.say(shownPlace(state, this.text), this.text.title);
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

  private focusGraphLater(): () => void {
    return focusLater(() => this.hierarchy.focusGraph());
  }

  private applyTheme(): void {
    const chosen = this.themeChoice === 'auto' ? hostTheme() : this.themeChoice;
    this.theme = forcedTheme() ?? chosen;
  }

  private goTo(to: NodeRef | Step): void {
    const node = selectAt(this.session, to);
    if (node) this.hierarchy.reveal(node);
  }

  // --- what commands act on

  /** What ways through the graph need. */
  get walker(): Walker {
    return {
      session: this.session,
      goTo: (node) => this.goTo(node),
      showNode: (place) => this.showNode(place),
      focusGraph: this.focusGraphLater(),
      say: (message) => this.say(message),
    };
  }

  help(): void {
    (this.$['helpDialog'] as GaHelp).open(commandsOf(this, this.text));
  }

  openPalette(): void {
    const possible = commandsOf(this, this.text).filter(({ isIdle }) => isIdle !== true);
    const runs = [...possible, ...placesOf(this, this.text)].map((command) => ({
      ...command,
      run: () => this.perform(command),
    }));
    const { graphs } = this._isOverview(this.state) ? { graphs: null } : this.state;
    const go = (node: NodeRef) => {
      this.goTo(node);
      this.hierarchy.focusGraph();
    };
    (this.$['palette'] as GaPalette).open(runs, graphs, go, (text) => {
      this.session.finding.change({ text });
      this.isListOpen = true;
    });
  }

  toggleOverview(): void {
    const { view } = this.state;
    if (view.page === 'overview') this.enter(view);
    else this.session.showOverview();
  }

  toggleList(): void {
    this.isListOpen = !this.isListOpen;
  }

  readonly toggleTheme = () => (this.$['toolbar'] as GaToolbar)._theme();
  readonly toggleLanguage = () => (this.$['toolbar'] as GaToolbar)._language();
  readonly focusSearch = () => (this.$['toolbar'] as GaToolbar).focusSearch();
  stepHit(direction: 1 | -1): void {
    this.goTo((hits) => hits.step(direction));
  }

  findBelow(): void {
    if (findBelow(this.walker)) this.isListOpen = true;
  }

  readonly toggleCard = () => (this.$['verdictLine'] as GaVerdictLine).toggle();
  readonly toggleDock = () => (this.$['details'] as GaDetails).toggleDock();
  nextColours(): void {
    const colours = nextColours(this.state);
    this.session.setView({ colours });
    this.say(`${this.text.colours.by[colours]}. ${this.text.colours.meaning[colours]}`);
  }

  togglePowers(): void {
    this.session.setView({ powers: !this.state.view.powers });
  }

  /** The node to match the selected one with is chosen in the graph, or it is said why not. */
  pickPartner(): void {
    const refusal = pickRefusal(this.state, this.text);
    if (refusal) this.say(refusal);
    else this.session.startPick();
    if (this.state.pick) this.hierarchy.focusGraph();
  }

  /** Says whether the match that evidence has made for the selected node is right. */
  readonly judge = (action: MatchAction): void => {
    void judge(this.session, action, this.text).then((outcome) => this.say(outcome));
  };

  takeBack(route: TakeBack): void {
    void takeBack(this.session, route, this.text).then((outcome) => this.say(outcome));
  }

  copyLink(): void {
    const { shell } = this.text;
    const isShort = this.hierarchy.look?.openInView !== undefined;
    void copyText(this.address.link()).then((isCopied) =>
      this.say(!isCopied ? shell.linkFailed : isShort ? shell.linkShortened : shell.linkCopied),
    );
  }

  readonly runView = (command: ViewCommand) => this.hierarchy.run(command);

  /** Keys work in the graph after every command; on the overview it is entered first. */
  private perform(command: Command): void {
    const { name, run, takesFocus = false, isEverywhere = false } = command;
    if (!isEverywhere && this._isOverview(this.state)) {
      void enterGraph(this.session).then(() => {
        const same = commandsOf(this, this.text).find((other) => other.name === name);
        if (same && !this._isOverview(this.state)) this.press(same);
      });
      return;
    }
    run();
    if (!takesFocus && !this._isOverview(this.state)) this.hierarchy.focusGraph();
  }

  private press(command: Command): void {
    const { name, isNamedFirst = false, isIdle = false } = command;
    if (isIdle) this.say(this.text.shell.idle(name));
    else if (!isNamedFirst || this.agreement.isAgreed(name)) this.perform(command);
    else this.say(this.text.match.pressAgain(name));
  }

  /** Keys that work wherever the focus is, unless it is in a field to type in. */
  private key(event: KeyboardEvent): void {
    const command = commandOf(event, commandsOf(this, this.text));
    if (command) this.press(command);
    // Otherwise Escape is the browser's own, which closes a dialog with it.
    else if (event.key === 'Escape' && this.state.pick) this.session.endPick(null);
    else return;
    event.preventDefault();
  }
}

customElements.define('ga-app', GaApp);
