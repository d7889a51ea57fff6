import { html } from '@polymer/polymer/polymer-element.js';

import {
  differences,
  fetchCells,
  fetchMoves,
  fetchTrend,
  fetchTrendGraphs,
  fetchTrends,
  scores,
  type Fixed,
  type Window,
} from '../../data/trend';
import { Side, type TrendGraph } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { curves } from '../parts/curves';
import { formatCount } from '../parts/format';
import '../parts/ga-icon';
import { TrendPage } from './trend-page';
import { fill, linkTo, moved, prefer } from './trend-controls';
import { lossPart } from './trend-loss';
import { CONTROLS, lookIn, lookText, rangeOf, type Control, type TrendLook } from './trend-link';
import { groundOf, NAMES, ROW, TrendMap } from './trend-map';
import { ordered, RowOrder } from './trend-rows';
import { turned } from './trend-range';
import {
  blockOf,
  columnsIn,
  drawnOf,
  placeOf,
  same,
  rowLabels,
  rowNames,
  sceneOf,
  valueText,
  type Shown,
  type TrendPlace,
} from './trend-shown';
import { trendParts, trendStyles } from './trend-template';

/** Zooming is told once it rests: browsers refuse more than a few hundred changes in a while. */
const PAUSE_MS = 300;
const CURVE = 150;

/** A button, and the page of trends that it opens: any statistic over two of step, rank and tensor. */
export class GaTrend extends TrendPage {
  static get template() {
    return html`${trendStyles}${trendParts}`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      wanted: { type: String, value: '', observer: '_wanted' },
      problem: { type: String, value: '' },
      hint: { type: String, value: '' },
      isEmpty: { type: Boolean, value: true },
    };
  }

  static get observers() {
    return ['_worded(text)'];
  }

  /** What a link asks for; empty while the page is closed. */
  declare wanted: string;
  declare hint: string;
  declare isEmpty: boolean;
  private rows: readonly number[] = [];
  private columns: readonly number[] = [];
  private range: readonly [number, number] | null = null;
  private shown: Shown | null = null;
  private asked = '';
  /** What is on its way. */
  private asking = '';
  private chosen: { row: number; column: number } | null = null;
  /** The file whose axes are there. */
  private loaded = '';
  /** What the link says of the page. */
  private told = '';
  private timer = 0;
  private readonly painter = new TrendMap();
  private readonly rowOrder = new RowOrder();
  private lossOf = '';

  /** Look for files, and show the first one. */
  open(): void {
    void this.show('');
  }

  /** A link leads here, or away. */
  _wanted(wanted: string): void {
    if (wanted === this.told) return;
    this.told = wanted;
    if (wanted) void this.show(wanted);
    else this.close();
  }

  private async show(wanted: string): Promise<void> {
    const look = lookIn(wanted);
    if (!this.dialog.open) this.dialog.showModal();
    await this.guarded('axes', async (signal) => {
      const files = await fetchTrends(this.session.fetch, signal);
      const names = files.map(({ name }) => name);
      this.isEmpty = !names.length;
      if (!names.length) return;
      fill(this.inside('run'), names.map(same));
      fill(this.inside('other'), [['', this.text.trend.noOther], ...names.map(same)]);
      const { run, other } = look.chosen;
      const gone = [run, other].find((name) => name && !names.includes(name));
      if (gone) throw new Error(this.text.trend.gone(gone));
      prefer(this.inside('run'), run);
      prefer(this.inside('other'), other);
      await this.load(signal, look);
    });
  }

  close(): void {
    this.dialog.close();
  }

  _closed(): void {
    this.questions.dropAll();
    clearTimeout(this.timer);
    this.told = '';
    this.session.setView({ trend: '' });
  }

  /** What is on screen, for tests. */
  get scene() {
    return this.shown && sceneOf(this.shown);
  }

  _chosen(): void {
    void this.guarded('axes', (signal) => this.load(signal));
  }

  _narrowed(): void {
    if (this.trend) this.fillPlaces();
    this._changed();
  }

  _changed(): void {
    this.unchoose();
    this.questions.drop('cells');
    this.shown = null;
    this.asked = this.asking = '';
    void this.order();
    void this.showLoss();
  }

  /** Rows have their order before they are shown. */
  private async order(): Promise<void> {
    const { trend } = this;
    if (!trend || this.loaded !== this.value('run')) return;
    const held = { fixed: this.value('fixed') as Fixed, at: Number(this.value('at')) };
    const files = { file: this.value('run'), other: this.value('other') };
    const asked = { ...files, ...held, statistic: this.value('statistic') };
    const isByMoves = this.value('order') === 'moves' && held.fixed !== 'target';
    const isCurrent = await this.rowOrder.settle(isByMoves ? asked : null, async (chosen) => {
      let moves: readonly number[] | null = null;
      await this.guarded('moves', async (signal) => {
        moves = await fetchMoves(this.session.fetch, trend, chosen, signal);
      });
      return moves;
    });
    if (isCurrent) this.layOut();
  }

  private async showLoss(): Promise<void> {
    const files = [this.value('run'), this.value('other')].filter(Boolean);
    const rank = this.value('fixed') === 'rank' ? Number(this.value('at')) : NaN;
    const key = JSON.stringify([files, rank]);
    if (key === this.lossOf || !this.trend) return;
    this.lossOf = key;
    await this.guarded('loss', async (signal) => {
      const curve = await lossPart(this.session.fetch, files, rank, this.words, signal);
      signal.throwIfAborted();
      this.inside('loss').replaceChildren(...(curve ? [curve] : []));
      this.layOut();
    });
  }

  _reset(): void {
    this.range = null;
    this.layOut();
  }

  _scrolled(): void {
    this.draw();
    void this.fetch();
  }

  _pick(event: MouseEvent): void {
    const { shown } = this;
    if (!shown) return;
    const { left, width } = this.extent(shown);
    const { length } = shown.cells.columns;
    const row = Math.floor((event.offsetY + this.map.scrollTop) / ROW);
    const column = Math.floor(((event.offsetX - NAMES - left) / width) * length);
    this.choose(row, Math.max(0, Math.min(length - 1, column)));
  }

  _wheel(event: WheelEvent): void {
    if (!this.trend || this.value('fixed') === 'step') return;
    const last = this.trend.steps.length - 1;
    const range = turned(event, this.range, last, NAMES, this.canvas.clientWidth - NAMES);
    if (range === undefined) return;
    event.preventDefault();
    this.range = range;
    this.layOut();
  }

  _key(event: KeyboardEvent): void {
    const { row, column } = this.chosen ?? { row: 0, column: 0 };
    const to = moved(event.key, row, column);
    if (event.key === 'Enter') void this.lookForGraphs();
    if (to) this.choose(...to);
    if (to || event.key === 'Enter') event.preventDefault();
  }

  _worded(text: Texts): void {
    fill(this.inside('fixed'), Object.entries(text.trend.fixedBy));
    fill(this.inside('order'), Object.entries(text.trend.orders));
    if (this.trend) this.fillAxes();
  }

  // -- what is chosen ------------------------------------------------------------------------

  private async load(signal: AbortSignal, look?: TrendLook): Promise<void> {
    const file = this.value('run');
    const trend = await fetchTrend(this.session.fetch, file, signal);
    signal.throwIfAborted();
    this.trend = trend;
    this.loaded = file;
    this.range = rangeOf(trend, look?.steps ?? null);
    this.shown = null;
    this.fillAxes();
    for (const control of ['statistic', 'kind', 'fixed', 'filter', 'order'] as const) {
      prefer(this.inside(control), look?.chosen[control]);
    }
    this.fillPlaces();
    prefer(this.inside('at'), look?.chosen.at);
    this._changed();
  }

  private layOut(): void {
    const trend = this.trend;
    // Axes that are on their way lay out what is shown when they are there.
    if (!trend || this.loaded !== this.value('run')) return;
    const fixed = this.value('fixed') as Fixed;
    const [from, to] = this.range ?? [0, trend.steps.length - 1];
    const held = this.value('at') ? trend.ranks : [];
    this.rows = fixed === 'target' ? held : ordered(trend, this.targets, this.rowOrder.moves);
    this.columns = fixed === 'step' ? trend.ranks : trend.steps.slice(from, to + 1);
    this.hint = this.value('other') ? this.text.trend.hintDifference : this.text.trend.hint;
    this.inside('space').style.height =
      `${Math.max(0, this.rows.length * ROW - this.map.clientHeight)}px`;
    this.canvas.style.height = `${Math.max(ROW, this.map.clientHeight)}px`;
    this.inside('first').textContent = String(this.columns[0] ?? '');
    this.inside('last').textContent = String(this.columns.at(-1) ?? '');
    this.inside('count').textContent = this.text.trend.rows(formatCount(this.rows.length));
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.tell(), PAUSE_MS);
    this._scrolled();
  }

  /** Puts what is shown into the link. */
  private tell(): void {
    if (!this.dialog.open) return;
    const chosen: Partial<Record<Control, string>> = {};
    for (const control of CONTROLS) chosen[control] = this.value(control);
    const { range, trend } = this;
    const steps = range && trend && ([trend.steps[range[0]]!, trend.steps[range[1]]!] as const);
    this.told = lookText({ chosen, steps });
    this.session.setView({ trend: this.told });
  }

  /** Ask for the rows in view, unless they are there; what is on its way is waited for. */
  private async fetch(): Promise<void> {
    const [first, end] = blockOf(this.map.scrollTop / ROW, this.map.clientHeight / ROW);
    const rows = this.rows.slice(first, end);
    const window: Window = {
      file: this.value('run'),
      other: this.value('other'),
      statistic: this.value('statistic'),
      fixed: this.value('fixed') as Fixed,
      at: Number(this.value('at')),
      rows,
      columns: this.columns,
      width: Math.max(1, Math.floor(this.canvas.clientWidth - NAMES)),
    };
    const key = JSON.stringify(window);
    // The server answers even what nobody waits for any more: one question at a time.
    if (key === this.asked || this.asking || !this.dialog.open) return;
    this.asked = key;
    if (!rows.length || !this.columns.length) {
      this.shown = null;
      this.draw();
      return;
    }
    this.asking = key;
    await this.guarded('cells', async (signal) => {
      const cells = await fetchCells(this.session.fetch, window, signal);
      signal.throwIfAborted();
      const marks = cells.rows.map(window.other ? differences : scores);
      const asked = [this.trend!, window, this.value('kind'), this.text] as const;
      if (String(this.shown?.cells.columns) !== String(cells.columns)) this.unchoose();
      const [names, labels] = [rowNames(...asked), rowLabels(...asked)];
      this.shown = { cells, scores: marks, first, names, labels, window };
      this.draw();
    });
    if (this.asking !== key) return;
    this.asking = '';
    if (this.asked) void this.fetch();
  }

  private draw(): void {
    const extent = this.shown ? this.extent(this.shown) : { left: 0, width: 0 };
    const drawn = drawnOf(this.shown, this.map.scrollTop, this.chosen?.row, extent);
    this.painter.draw(this.canvas, drawn, groundOf(this));
  }

  private extent({ window }: Shown) {
    const width = this.canvas.clientWidth - NAMES;
    return columnsIn(window, this.columns, this.trend!.steps, width);
  }

  // -- one value -----------------------------------------------------------------------------

  private choose(row: number, column: number): void {
    const { shown } = this;
    const values = shown?.cells.rows[row - shown.first];
    if (!shown || !values || column < 0 || column >= values.length) return;
    this.chosen = { row, column };
    const at = row - shown.first;
    this.inside('value').textContent = valueText(shown, this.trend!, row, column, this.text);
    const button = Object.assign(create('button', '', this.text.trend.graphs), { id: 'graphs' });
    button.addEventListener('click', () => void this.lookForGraphs());
    this.inside('links').replaceChildren(button);
    const { columns, rows } = shown.cells;
    const look = { width: this.canvas.clientWidth, height: CURVE, label: shown.names[at]! };
    this.inside('curve').replaceChildren(curves(columns, [rows[at]!], look));
    this.draw();
  }

  protected override failed(problem: string): void {
    super.failed(problem);
    this.asked = '';
  }

  private unchoose(): void {
    this.chosen = null;
    for (const part of ['value', 'links', 'curve']) this.inside(part).replaceChildren();
  }

  private async lookForGraphs(): Promise<void> {
    const { chosen, shown } = this;
    if (!chosen || !shown?.names[chosen.row - shown.first]) return;
    const place = placeOf(shown, chosen.row, chosen.column);
    await this.guarded('graphs', async (signal) => {
      const { file } = shown.window;
      const graphs = await fetchTrendGraphs(this.session.fetch, { ...place, file }, signal);
      const links = graphs.map((graph) => linkTo(graph, () => this.go(graph, place)));
      const none = create('span', '', this.text.trend.noGraph);
      this.inside('links').replaceChildren(...(links.length ? links : [none]));
      links[0]?.focus();
    });
  }

  private go({ file, node }: TrendGraph, { step, rank }: TrendPlace): void {
    const { view } = this.session.state;
    const place = { file, step, rank, node, side: Side.NPU, only: null, look: null, trend: '' };
    this.tell(); // the way back leads to what is shown now
    void this.session.follow({ ...view, ...place, page: 'graph' }, true);
  }
}

customElements.define('ga-trend', GaTrend);
