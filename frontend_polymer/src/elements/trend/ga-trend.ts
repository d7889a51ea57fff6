import { html } from '@polymer/polymer/polymer-element.js';

import {
  differences,
  fetchCells,
  fetchTrend,
  fetchTrendGraphs,
  fetchTrends,
  scores,
  type Cells,
  type Fixed,
  type Window,
} from '../../data/trend';
import { Side, type Trend, type TrendGraph } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { Session } from '../../session/session';
import { create } from '../parts/create';
import { formatCount, formatNumber } from '../parts/format';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { curveOf } from './trend-curve';
import { columnWidth, drawMap, NAMES, ROW, zoomed } from './trend-map';
import { trendParts, trendStyles } from './trend-template';

/** Of each kind only the last question counts. */
type Question = 'axes' | 'cells' | 'graphs';

interface Shown {
  readonly cells: Cells;
  readonly scores: readonly (readonly (number | undefined)[])[];
  /** Place of its first row among all rows. */
  readonly first: number;
  readonly names: readonly string[];
  readonly window: Window;
}

/** A button, and the page of trends that it opens: any statistic over two of step, rank and tensor. */
export class GaTrend extends LocalizedElement {
  static get template() {
    return html`${trendStyles}${trendParts}`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      problem: { type: String, value: '' },
      hint: { type: String, value: '' },
      isEmpty: { type: Boolean, value: true },
    };
  }

  static get observers() {
    return ['_worded(text)'];
  }

  declare session: Session;
  declare problem: string;
  declare hint: string;
  declare isEmpty: boolean;
  private trend: Trend | null = null;
  private rows: readonly number[] = [];
  private columns: readonly number[] = [];
  private range: readonly [number, number] | null = null;
  private shown: Shown | null = null;
  private asked = '';
  private chosen: { row: number; column: number } | null = null;
  /** The file whose axes are there. */
  private loaded = '';
  private readonly running = new Map<Question, AbortController>();

  /** Look for files, and show the first one. */
  async open(): Promise<void> {
    (this.inside('dialog') as HTMLDialogElement).showModal();
    await this.guarded('axes', async (signal) => {
      const files = await fetchTrends(this.session.fetch, signal);
      const names = files.map(({ name }) => name);
      this.isEmpty = !names.length;
      if (!names.length) return;
      this.fill('run', names.map(same));
      this.fill('other', [['', this.text.trend.noOther], ...names.map(same)]);
      await this.load(signal);
    });
  }

  close(): void {
    for (const one of this.running.values()) one.abort();
    (this.inside('dialog') as HTMLDialogElement).close();
  }

  /** What is on screen, for tests: names of rows, columns and values. */
  get scene() {
    const { shown } = this;
    if (!shown) return null;
    return {
      file: shown.window.file,
      other: shown.window.other,
      names: shown.names,
      columns: shown.cells.columns,
      rows: shown.cells.rows,
    };
  }

  _chosen(): void {
    void this.guarded('axes', (signal) => this.load(signal));
  }

  _fixed(): void {
    this.fillPlaces();
    this._changed();
  }

  _changed(): void {
    this.chosen = null;
    this.shown = null;
    this.asked = '';
    this.inside('value').textContent = '';
    this.inside('links').replaceChildren();
    this.inside('curve').replaceChildren();
    this.layOut();
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
    const box = columnWidth(this.canvas.clientWidth, shown.cells.columns.length);
    const row = Math.floor((event.offsetY + this.map.scrollTop) / ROW);
    const column = Math.floor((event.offsetX - NAMES) / box);
    this.choose(row, Math.max(0, Math.min(shown.cells.columns.length - 1, column)));
  }

  /** With Ctrl the steps are zoomed about the pointer; without, the rows scroll. */
  _wheel(event: WheelEvent): void {
    if (!event.ctrlKey || this.value('fixed') === 'step') return;
    event.preventDefault();
    const share = (event.offsetX - NAMES) / (this.canvas.clientWidth - NAMES);
    const last = this.trend!.steps.length - 1;
    this.range = zoomed(this.range ?? [0, last], last, share, event.deltaY < 0);
    this.layOut();
  }

  _key(event: KeyboardEvent): void {
    const { row, column } = this.chosen ?? { row: 0, column: 0 };
    const moves: Record<string, [number, number]> = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
    };
    const to = moves[event.key];
    if (event.key === 'Enter') void this.lookForGraphs();
    if (to) this.choose(...to);
    if (to || event.key === 'Enter') event.preventDefault();
  }

  _worded(text: Texts): void {
    this.fill(
      'fixed',
      (['rank', 'step', 'target'] as const).map((one) => [one, text.trend.fixedBy[one]]),
    );
    if (this.trend) this.fillAxes();
  }

  // -- what is chosen ------------------------------------------------------------------------

  private async load(signal: AbortSignal): Promise<void> {
    const file = this.value('run');
    const trend = await fetchTrend(this.session.fetch, file, signal);
    signal.throwIfAborted();
    this.trend = trend;
    this.loaded = file;
    this.range = null;
    this.shown = null;
    this.fillAxes();
    this._changed();
  }

  private fillAxes(): void {
    const { kinds, statistics } = this.trend!;
    this.fill('statistic', statistics.map(same));
    this.fill('kind', [['', this.text.trend.allKinds], ...kinds.map(same)]);
    this.fillPlaces();
  }

  private fillPlaces(): void {
    const { steps, ranks, names, kinds, kind } = this.trend!;
    const places: Record<Fixed, readonly [string, string][]> = {
      rank: ranks.map((one) => same(String(one))),
      step: steps.map((one) => same(String(one))),
      target: names.map((name, at) => [String(at), `${kinds[kind[at]!]!} ${name}`]),
    };
    this.fill('at', places[this.value('fixed') as Fixed]);
  }

  private layOut(): void {
    const trend = this.trend;
    // Axes that are on their way lay out what is shown when they are there.
    if (!trend || this.loaded !== this.value('run')) return;
    const fixed = this.value('fixed') as Fixed;
    const kind = trend.kinds.indexOf(this.value('kind'));
    const part = this.value('filter').toLowerCase();
    const targets = trend.names.flatMap((name, at) =>
      (kind < 0 || trend.kind[at] === kind) && name.toLowerCase().includes(part) ? [at] : [],
    );
    const [from, to] = this.range ?? [0, trend.steps.length - 1];
    this.rows = fixed === 'target' ? trend.ranks : targets;
    this.columns = fixed === 'step' ? trend.ranks : trend.steps.slice(from, to + 1);
    this.hint = this.value('other') ? this.text.trend.hintDifference : this.text.trend.hint;
    this.inside('space').style.height =
      `${Math.max(0, this.rows.length * ROW - this.map.clientHeight)}px`;
    this.canvas.style.height = `${Math.max(ROW, this.map.clientHeight)}px`;
    this.inside('first').textContent = String(this.columns[0] ?? '');
    this.inside('last').textContent = String(this.columns.at(-1) ?? '');
    this.inside('count').textContent = this.text.trend.rows(formatCount(this.rows.length));
    void this.fetch();
  }

  /** Ask for the rows in view, unless they are there or on their way. */
  private async fetch(): Promise<void> {
    const first = Math.floor(this.map.scrollTop / ROW);
    const rows = this.rows.slice(first, first + Math.ceil(this.map.clientHeight / ROW) + 1);
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
    if (key === this.asked) return;
    this.asked = key;
    if (!rows.length || !this.columns.length) {
      this.shown = null;
      this.draw();
      return;
    }
    await this.guarded('cells', async (signal) => {
      const cells = await fetchCells(this.session.fetch, window, signal);
      const score = window.other ? differences : scores;
      signal.throwIfAborted();
      const marks = cells.rows.map((row) => score(row));
      const names = rows.map((at) => this.nameOf(at));
      this.shown = { cells, scores: marks, first, names, window };
      this.draw();
    });
  }

  private draw(): void {
    const { shown } = this;
    const style = getComputedStyle(this);
    const ground = {
      isDark: style.colorScheme.includes('dark'),
      text: style.getPropertyValue('--ga-text'),
      muted: style.getPropertyValue('--ga-muted'),
    };
    const cells = shown?.cells ?? { columns: [], rows: [] };
    const first = shown?.first ?? 0;
    const drawn = {
      cells,
      scores: shown?.scores ?? [],
      names: shown?.names ?? [],
      isDifference: Boolean(shown?.window.other),
      top: first * ROW - this.map.scrollTop,
      chosen: (this.chosen?.row ?? -1) - first,
    };
    drawMap(this.canvas, drawn, ground);
  }

  private nameOf(at: number): string {
    const trend = this.trend!;
    if (this.value('fixed') === 'target') return `${this.text.trend.fixedBy.rank} ${at}`;
    const name = trend.names[at]!;
    return this.value('kind') ? name : `${trend.kinds[trend.kind[at]!]!} ${name}`;
  }

  // -- one value -----------------------------------------------------------------------------

  private choose(row: number, column: number): void {
    const { shown } = this;
    const values = shown?.cells.rows[row - shown.first];
    if (!shown || !values || column < 0 || column >= values.length) return;
    this.chosen = { row, column };
    const { step, rank, target } = this.placeOf(shown, row, column);
    const value = values[column];
    const shownValue = value === undefined ? this.text.trend.nothing : formatNumber(value);
    const name = this.trend!.names[target]!;
    this.inside('value').textContent = this.text.trend.value(name, step, rank, shownValue);
    const button = create('button', '', this.text.trend.graphs);
    button.id = 'graphs';
    button.addEventListener('click', () => void this.lookForGraphs());
    this.inside('links').replaceChildren(button);
    const width = this.canvas.clientWidth;
    this.inside('curve').replaceChildren(
      curveOf(shown.cells, row - shown.first, shown.names[row - shown.first]!, width),
    );
    this.draw();
  }

  private placeOf({ cells, window, first }: Shown, row: number, column: number) {
    const { at, fixed } = window;
    const [line, begin] = [window.rows[row - first]!, cells.columns[column]!];
    const places: Record<Fixed, { step: number; rank: number; target: number }> = {
      rank: { step: begin, rank: at, target: line },
      step: { step: at, rank: begin, target: line },
      target: { step: begin, rank: line, target: at },
    };
    return places[fixed];
  }

  private async lookForGraphs(): Promise<void> {
    const { chosen, shown } = this;
    if (!chosen || !shown?.names[chosen.row - shown.first]) return;
    const place = this.placeOf(shown, chosen.row, chosen.column);
    await this.guarded('graphs', async (signal) => {
      const asked = { ...place, file: shown.window.file };
      const graphs = await fetchTrendGraphs(this.session.fetch, asked, signal);
      const links = graphs.map((graph) => this.linkTo(graph, place));
      const none = create('span', '', this.text.trend.noGraph);
      this.inside('links').replaceChildren(...(links.length ? links : [none]));
      links[0]?.focus();
    });
  }

  private linkTo({ file, node }: TrendGraph, { step, rank }: { step: number; rank: number }) {
    const button = create('button', '', node ? `${file} · ${node}` : file);
    button.addEventListener('click', () => {
      const { view } = this.session.state;
      const only = null;
      const place = { file, step, rank, node, side: Side.NPU, only, look: null };
      this.close();
      void this.session.follow({ ...view, ...place, page: 'graph' }, true);
    });
    return button;
  }

  // -- parts ---------------------------------------------------------------------------------

  /** What is wrong is said on the page; an answer that came too late says nothing. */
  private async guarded(
    question: Question,
    run: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    this.running.get(question)?.abort();
    const own = new AbortController();
    this.running.set(question, own);
    try {
      this.problem = '';
      await run(own.signal);
    } catch (error) {
      if (own.signal.aborted) return;
      this.asked = '';
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  private fill(id: string, choices: readonly (readonly [string, string])[]): void {
    const select = this.inside(id) as HTMLSelectElement;
    const before = select.value;
    select.replaceChildren(...choices.map(([value, label]) => new Option(label, value)));
    if (choices.some(([value]) => value === before)) select.value = before;
  }

  private value(id: string): string {
    return (this.inside(id) as HTMLSelectElement | HTMLInputElement).value;
  }

  private inside(id: string): HTMLElement {
    return this.$[id] as HTMLElement;
  }

  private get map(): HTMLElement {
    return this.inside('map');
  }

  private get canvas(): HTMLCanvasElement {
    return this.inside('canvas') as HTMLCanvasElement;
  }
}

function same(value: string): [string, string] {
  return [value, value];
}

customElements.define('ga-trend', GaTrend);
