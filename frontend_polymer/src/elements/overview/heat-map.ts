import type { DatabaseFile, GraphPair } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { graphCell, noCell, placeKey, shownOf, type Place, type Shown } from './heat-cell';

/** Width and height of a cell and the gap between two, in pixels. */
interface Size {
  readonly name: string;
  readonly fromRanks: number;
  readonly width: number;
  readonly height: number;
  readonly gap: number;
  /** Cells that are narrower than a number have a heading only now and then. */
  readonly ranksPerHeading: number;
}

const SIZES: readonly Size[] = [
  { name: 'map tiny', fromRanks: 64, width: 14, height: 18, gap: 1, ranksPerHeading: 8 },
  { name: 'map narrow', fromRanks: 24, width: 28, height: 24, gap: 1, ranksPerHeading: 1 },
  { name: 'map', fromRanks: 0, width: 44, height: 30, gap: 3, ranksPerHeading: 1 },
];

/** Cells are made and taken away so many at a time, in both directions. */
const BLOCK = 16;

/** A row of the map, and those of its cells that are there, by the place of their rank. */
interface Row {
  readonly element: HTMLElement;
  readonly cells: Map<number, HTMLElement>;
}

/**
 * A row per step, a column per rank, a button per graph that carries its place. A file may hold tens
 * of thousands of graphs, so only what is in view is there, and the cell where the keyboard is.
 */
export class HeatMap {
  readonly element: HTMLElement;
  private readonly steps: readonly number[];
  private readonly ranks: readonly number[];
  private readonly graphs: ReadonlyMap<string, GraphPair>;
  private readonly failed: ReadonlyMap<string, string>;
  private readonly shown: Shown;
  private readonly size: Size;
  private readonly body = create('div', 'part');
  private readonly rows = new Map<number, Row>();
  private current: Place | undefined;
  private seen = '';

  /** `scroller` is the element around it that scrolls. */
  constructor(
    file: DatabaseFile,
    private readonly text: Texts,
    private readonly scroller: HTMLElement,
  ) {
    const places = [...file.graphs, ...file.failedRanks];
    this.steps = ascending(places.map((place) => place.step));
    this.ranks = ascending(places.map((place) => place.rank));
    this.graphs = new Map(file.graphs.map((pair) => [placeKey(pair), pair]));
    this.failed = new Map(file.failedRanks.map((rank) => [placeKey(rank), rank.reason]));
    this.shown = shownOf(file, text);
    this.size = SIZES.find(({ fromRanks }) => this.ranks.length >= fromRanks)!;
    this.element = this.makeGrid();
  }

  /** Makes the cells that are in view now. */
  look(): void {
    const { width, height, gap } = this.size;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.scroller;
    const columns = blocks(scrollLeft, clientWidth, width + gap, this.ranks.length);
    const lines = blocks(scrollTop, clientHeight, height + gap, this.steps.length);
    const seen = [...columns, ...lines].join();
    if (seen === this.seen) return;
    this.seen = seen;
    this.fill(columns, lines);
  }

  /** The cell of a graph is the only one in the tab order from now on; else the first one is. */
  makeCurrent(place: Place): HTMLElement | undefined {
    const before = this.cellAt(this.current);
    const isThere = this.graphs.has(placeKey(place));
    this.current = isThere ? place : [...this.graphs.values()][0];
    this.seen = '';
    this.look();
    const cell = this.cellAt(this.current);
    if (before) before.tabIndex = -1;
    if (cell) cell.tabIndex = 0;
    return cell;
  }

  /** Where a key leads from a graph, over places without one; nowhere at the edge. */
  static readonly KEYS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'];

  target({ step, rank }: Place, key: string): Place | undefined {
    const isAlongRow = key !== 'ArrowUp' && key !== 'ArrowDown';
    const [own, all] = isAlongRow ? [rank, this.ranks] : [step, this.steps];
    const isBack = ['ArrowLeft', 'ArrowUp', 'End'].includes(key);
    const isJump = key === 'Home' || key === 'End';
    const ahead = isJump ? all : all.filter((one) => (isBack ? one < own : one > own));
    const ordered = isBack ? [...ahead].reverse() : ahead;
    return ordered
      .map((one) => (isAlongRow ? { step, rank: one } : { step: one, rank }))
      .find((place) => this.graphs.has(placeKey(place)));
  }

  private cellAt(place: Place | undefined): HTMLElement | undefined {
    if (!place) return undefined;
    const row = this.rows.get(this.steps.indexOf(place.step));
    const cell = row?.cells.get(this.ranks.indexOf(place.rank));
    return cell?.firstElementChild as HTMLElement | undefined;
  }

  private fill(columns: readonly number[], lines: readonly number[]): void {
    const { current, steps, ranks } = this;
    const line = current ? steps.indexOf(current.step) : -1;
    const column = current ? ranks.indexOf(current.rank) : -1;
    const own = (at: number) => (at === line ? [column] : []);
    keep(this.rows, union(lines, line < 0 ? [] : [line]), {
      parent: this.body,
      element: (row) => row.element,
      make: (at) => this.makeRow(at),
    });
    for (const [at, row] of this.rows) {
      const seen = lines.includes(at) ? columns : [];
      keep(row.cells, union(seen, own(at)), {
        parent: row.element,
        element: (cell) => cell,
        make: (place) => this.makeCell(at, place),
      });
    }
  }

  private makeGrid(): HTMLElement {
    const { steps, ranks, size } = this;
    const { width, height, gap } = size;
    const grid = create('div', size.name);
    grid.role = 'grid';
    grid.ariaRowCount = String(steps.length + 1);
    grid.ariaColCount = String(ranks.length + 1);
    grid.style.gridTemplateColumns = `max-content repeat(${ranks.length}, ${width}px)`;
    grid.style.gridTemplateRows = `max-content repeat(${steps.length}, ${height}px)`;
    grid.style.gap = `${gap}px`;
    this.body.role = 'rowgroup';
    grid.append(this.makeHead(), this.body);
    return grid;
  }

  private makeHead(): HTMLElement {
    const { ranks, text } = this;
    const each = this.size.ranksPerHeading;
    const row = create('div', 'part head');
    row.role = 'row';
    row.ariaRowIndex = '1';
    const corner = create('div', 'heading corner', `${text.toolbar.step} \\ ${text.toolbar.rank}`);
    corner.role = 'columnheader';
    row.append(corner);
    for (let at = 0; at < ranks.length; at += each) {
      const heading = create('div', 'heading', String(ranks[at]));
      heading.role = 'columnheader';
      heading.ariaColIndex = String(at + 2);
      heading.style.gridArea = `1 / ${at + 2} / 2 / ${Math.min(at + each, ranks.length) + 2}`;
      row.append(heading);
    }
    const head = create('div', 'part');
    head.role = 'rowgroup';
    head.append(row);
    return head;
  }

  private makeRow(at: number): Row {
    const element = create('div', 'part');
    element.role = 'row';
    element.ariaRowIndex = String(at + 2);
    const name = create('div', 'heading step', String(this.steps[at]));
    name.role = 'rowheader';
    name.style.gridArea = `${at + 2} / 1`;
    element.append(name);
    return { element, cells: new Map() };
  }

  private makeCell(line: number, column: number): HTMLElement {
    const place = { step: this.steps[line]!, rank: this.ranks[column]! };
    const key = placeKey(place);
    const pair = this.graphs.get(key);
    const cell = create('div', '');
    cell.role = 'gridcell';
    cell.ariaColIndex = String(column + 2);
    cell.style.gridArea = `${line + 2} / ${column + 2}`;
    cell.append(
      pair ? graphCell(pair, this.shown) : noCell(place, this.failed.get(key), this.text),
    );
    return cell;
  }
}

/** The places between two edges, whole blocks of them; none where nothing is shown. */
function blocks(start: number, length: number, pitch: number, count: number): number[] {
  if (length === 0) return [];
  const first = Math.floor(start / pitch / BLOCK) * BLOCK;
  const end = Math.min(count, Math.ceil((start + length) / pitch / BLOCK) * BLOCK);
  return Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at);
}

/** Makes and takes away children until those of the wanted places are there, in order. */
function keep<Made>(
  made: Map<number, Made>,
  wanted: readonly number[],
  of: {
    readonly parent: HTMLElement;
    readonly element: (made: Made) => HTMLElement;
    readonly make: (place: number) => Made;
  },
): void {
  const kept = new Set(wanted);
  for (const [place, one] of made) {
    if (kept.has(place)) continue;
    of.element(one).remove();
    made.delete(place);
  }
  // What is there stays where it is: an element that is moved loses the focus.
  let before: Element | null = null;
  for (const place of [...wanted].reverse()) {
    let one = made.get(place);
    if (!one) {
      made.set(place, (one = of.make(place)));
      of.parent.insertBefore(of.element(one), before);
    }
    before = of.element(one);
  }
}

function union(one: readonly number[], other: readonly number[]): readonly number[] {
  const isIn = other.every((place) => one.includes(place));
  return isIn ? one : ascending([...one, ...other]);
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((one, other) => one - other);
}
