import { html } from '@polymer/polymer/polymer-element.js';

import { lossesOf } from '../../data/losses';
import type { Palette } from '../../canvas/palette';
import {
  Side,
  type Configuration,
  type DatabaseFile,
  type GraphPair,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import { verdictOf } from '../../session/verdict';
import { formatCount } from '../parts/format';
import './ga-configuration';
import './ga-file-facts';
import '../verdict/ga-verdict';
import '../parts/ga-icon';
import { graphCounts } from './graph-counts';
import { firstWrongGraph, isAnythingWrong, isJudged, worstGraph } from './heat-cell';
import { HeatMap } from './heat-map';
import { heatStrip } from './heat-strip';
import { outcomeCounts } from './outcome-counts';
import { overviewStyles } from './overview-styles';
import { LocalizedElement } from '../parts/localized';
import { lossCurve, lossStyles } from '../parts/loss-curve';
import { showWithin } from '../parts/show-within';
import { controls } from '../parts/styles';

/** What `enter` carries: the graph to show. */
export interface GraphPlace {
  readonly step: number;
  readonly rank: number;
}

/** All steps and ranks of a file: how bad each is, what was compared, what the build remarked. */
export class GaOverview extends LocalizedElement {
  static get template() {
    return html`${controls}${overviewStyles}${lossStyles}
      <div class="page">
        <section class="wide" hidden$="[[!file.configuration]]">
          <ga-configuration configuration="[[_configuration(file)]]"></ga-configuration>
        </section>
        <section class="wide" hidden$="[[_lacksVerdict(file)]]">
          <ga-verdict state="[[state]]"></ga-verdict>
        </section>
        <section aria-labelledby="mapTitle">
          <header>
            <h2 id="mapTitle">[[_mapTitle(file, text)]]</h2>
            <div class="jumps">
              <button
                id="first"
                class$="[[_firstClass(state)]]"
                hidden$="[[!first]]"
                on-click="_enterFirst"
              >
                <ga-icon name="jump"></ga-icon>[[_firstLabel(first, text)]]
              </button>
              <button
                id="worst"
                class$="[[_worstClass(state, first)]]"
                hidden$="[[!worst]]"
                on-click="_enterWorst"
              >
                <ga-icon name="jump"></ga-icon>[[_worstLabel(worst, text)]]
              </button>
            </div>
          </header>
          <p class="muted">[[_hints(file, text)]]</p>
          <div id="loss"></div>
          <div id="outcomes"></div>
          <div id="strip"></div>
          <div
            class="scroll"
            id="map"
            on-click="_click"
            on-keydown="_key"
            on-focusin="_focused"
            on-scroll="_look"
          ></div>
        </section>
        <section>
          <h2>[[text.notes.about]]</h2>
          <ga-file-facts file="[[file]]"></ga-file-facts>
        </section>
        <section class="wide" aria-labelledby="countsTitle">
          <header>
            <h2 id="countsTitle">[[text.overview.counts]]</h2>
            <span class="muted">[[_graphs(file, text)]]</span>
          </header>
          <div class="scroll" id="counts" on-click="_click" on-scroll="_countsScrolled"></div>
        </section>
      </div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      file: { type: Object, computed: '_file(state)' },
      palette: Object,
      worst: { type: Object, computed: '_worst(file)' },
      first: { type: Object, value: null, computed: '_first(file, worst)' },
    };
  }

  static get observers() {
    return [
      '_render(file, text, state.view.page)',
      '_paletteChanged(palette)',
      '_placeChanged(state.view.step, state.view.rank, state.view.page)',
    ];
  }

  declare state: AppState;
  declare file: DatabaseFile | undefined;
  declare worst: GraphPair | undefined;
  /** The first wrong graph, where it is not the worst one. */
  declare first: GraphPlace | null;
  declare palette: Palette | undefined;
  private moreCounts: () => void = () => undefined;
  private heatMap: HeatMap | undefined;
  private rendered: { readonly file: DatabaseFile; readonly text: Texts } | null = null;
  private shown = '';
  private readonly resized = new ResizeObserver(() => {
    this._look();
    if (this.map.clientWidth !== this.width) this.drawWide();
    this.width = this.map.clientWidth;
  });
  private width = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    this.resized.observe(this.map);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.resized.disconnect();
  }

  _file(state: AppState): DatabaseFile | undefined {
    return fileOf(state);
  }

  _configuration(file: DatabaseFile | undefined): Configuration | null {
    return file?.configuration ?? null;
  }

  /** Where a run alone was not even checked for what must hold in it. */
  _lacksVerdict(file: DatabaseFile | undefined): boolean {
    return !file?.isComparison && !file?.verdict;
  }

  _worst(file: DatabaseFile | undefined): GraphPair | undefined {
    return file && worstGraph(file);
  }

  _first(file: DatabaseFile | undefined, worst: GraphPair | undefined): GraphPlace | null {
    const first = file && firstWrongGraph(file);
    return first && first !== worst ? first : null; // what is undefined would not be hidden
  }

  /** One button leads on: to a suspect, else to where it began, else to the worst. */
  _firstClass(state: AppState): string {
    return verdictOf(state)?.suspects.length ? '' : 'primary';
  }

  _worstClass(state: AppState, first: GraphPlace | null): string {
    return first || verdictOf(state)?.suspects.length ? '' : 'primary';
  }

  _hints(file: DatabaseFile | undefined, { overview, shell }: Texts): string {
    const hasSuspects = (file?.verdict?.suspects.length ?? 0) > 0;
    return hasSuspects
      ? shell.sentences(overview.enterHint, overview.markHint)
      : overview.enterHint;
  }

  _mapTitle(file: DatabaseFile | undefined, text: Texts): string {
    if (file && isJudged(file)) return text.overview.heatMapJudged;
    if (file?.isComparison) return text.overview.heatMap;
    return file?.overflowChecked ? text.overview.heatMapOverflow : text.overview.heatMapPlain;
  }

  _worstLabel(worst: GraphPair | undefined, text: Texts): string {
    if (!worst) return '';
    const isWorse = this.file !== undefined && !isJudged(this.file) && isAnythingWrong(worst);
    const label = isWorse ? text.overview.worst : text.overview.open;
    return label(worst.step, worst.rank);
  }

  _firstLabel(first: GraphPlace | null, text: Texts): string {
    return first ? text.overview.first(first.step, first.rank) : '';
  }

  _graphs(file: DatabaseFile | undefined, text: Texts): string {
    return text.overview.graphs(formatCount(file?.graphs.length ?? 0));
  }

  /** Once it is to be seen: whoever looks at a graph does not wait for it. */
  _render(file: DatabaseFile | undefined, text: Texts, page: string): void {
    if (!file || file.problem || page !== 'overview') return;
    if (file === this.rendered?.file && text === this.rendered.text) return;
    this.rendered = { file, text };
    this.heatMap = new HeatMap(file, text, this.map);
    const { element } = this.heatMap;
    const held = this.map.contains(this.shadowRoot?.activeElement ?? null);
    element.setAttribute('aria-labelledby', 'mapTitle');
    this.map.replaceChildren(element);
    (this.$['outcomes'] as HTMLElement).replaceChildren(...outcomeCounts(file, text));
    this.drawWide();
    const { table, more } = graphCounts(file, text);
    (this.$['counts'] as HTMLElement).replaceChildren(table);
    this.moreCounts = more;
    const cell = this.makeCurrent();
    if (held) cell?.focus({ preventScroll: true });
  }

  /** Called with every change of state: what holds the focus keeps it unless the place is another. */
  _placeChanged(step: number, rank: number, page: string): void {
    const shown = `${page} ${step} ${rank}`;
    if (shown === this.shown || !this.heatMap) return; // without a map there is no cell to take the focus
    this.shown = shown;
    // What is in view of a hidden map costs a layout.
    if (page !== 'overview') return;
    const cell = this.makeCurrent();
    if (!cell) return;
    showWithin(this.map, cell);
    cell.focus({ preventScroll: true });
  }

  _paletteChanged(): void {
    if (this.file && this.heatMap) this.drawStrip();
  }

  /** What is as wide as there is room. */
  private drawWide(): void {
    this.drawStrip();
    const { file, text, map } = this;
    const { debug, reference, model } = text.sides;
    const own = file?.isComparison ? debug : model;
    const losses = lossesOf(file?.graphs ?? []);
    const names = losses.lines.map(({ side }) => (side === Side.NPU ? own : reference));
    const loss = lossCurve(losses, names, map.clientWidth, text);
    (this.$['loss'] as HTMLElement).replaceChildren(...(loss ? [loss] : []));
  }

  /** Where ranks are so many that cells have to be scrolled to: all of them in one picture. */
  private drawStrip(): void {
    const strip = this.$['strip'] as HTMLElement;
    const { file, text, palette } = this;
    const drawn = file && palette ? heatStrip(file, palette, strip.clientWidth, text) : null;
    strip.replaceChildren(...(drawn ? [drawn.element] : []));
    if (drawn) drawn.element.onclick = (event) => this.showPlace(drawn.placeAt(event));
  }

  private showPlace(place: GraphPlace | undefined): void {
    if (place) this.heatMap?.makeCurrent(place)?.focus();
  }

  /** Cells are there as soon as they come into view. */
  _look(): void {
    this.heatMap?.look();
  }

  /** The next rows are there before the last one is in view. */
  _countsScrolled(): void {
    const { scrollTop, clientHeight, scrollHeight } = this.$['counts'] as HTMLElement;
    if (scrollTop + 2 * clientHeight > scrollHeight) this.moreCounts();
  }

  _enterWorst(): void {
    if (this.worst) this.enter(this.worst);
  }

  _enterFirst(): void {
    if (this.first) this.enter(this.first);
  }

  _click(event: Event): void {
    const button = (event.target as HTMLElement).closest('button');
    if (button) this.enter(placeOf(button));
  }

  /** Only one cell is in the tab order; the arrows move between them. */
  _focused(event: Event): void {
    const { target } = event;
    if (target instanceof HTMLButtonElement) this.heatMap?.makeCurrent(placeOf(target));
  }

  _key(event: KeyboardEvent): void {
    const button = (event.target as HTMLElement).closest('button');
    if (!button || !this.heatMap || !HeatMap.KEYS.includes(event.key)) return;
    event.preventDefault();
    const target = this.heatMap.target(placeOf(button), event.key);
    if (target) this.heatMap.makeCurrent(target)?.focus();
  }

  /** The cell of the graph shown last, else of the first suspect, the first wrong or the worst one, is where the keyboard begins. */
  private makeCurrent(): HTMLElement | undefined {
    const place = this.state.graphs
      ? this.state.view
      : (verdictOf(this.state)?.suspects[0] ?? this.first ?? this.worst ?? this.state.view);
    return this.heatMap?.makeCurrent({ step: place.step, rank: place.rank });
  }

  private get map(): HTMLElement {
    return this.$['map'] as HTMLElement;
  }

  private enter(detail: GraphPlace): void {
    this.dispatchEvent(new CustomEvent('enter', { detail }));
  }
}

function placeOf({ dataset }: HTMLElement): GraphPlace {
  return { step: Number(dataset['step']), rank: Number(dataset['rank']) };
}

customElements.define('ga-overview', GaOverview);
