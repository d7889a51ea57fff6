import type { ColourMode } from '../data/codes';
import { colouringOf, type Known } from '../data/colouring';
import type { Graph } from '../data/graph';
import { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { otherSide, SIDES, type PerSide } from '../layout/sides';
import type { Band } from './band';
import { drawPane } from './draw';
import type { Frame } from './frame';
import { geometryOf, Placer } from './geometry';
import { canvasRuler, Measure } from './measure';
import { drawMinimap } from './minimap';
import { paletteOf, type Palette } from './palette';
import type { Pane } from './panes';
import { Pyramid } from './pyramid';
import type { Sheet } from './sheet';
import { Tones } from './tone';
import { columnsOf, type Columns } from './items';
import type { UnifiedFacts } from './unified-facts';
import type { Extent, View } from './viewport';

const NONE = new Int32Array();

/** What colours and numbers say. */
export interface Colours {
  readonly mode: ColourMode;
  readonly known: Known;
  /** Whether small numbers are written as powers of ten. */
  readonly asPower: boolean;
}

const DOCUMENTED: Colours = {
  mode: 'precision',
  known: { measures: null, bands: [] },
  asPower: false,
};

/** What the verdict adds to the picture. */
export interface Marks {
  /** Who may be to blame, ascending. */
  readonly suspects: PerSide<Int32Array>;
  /** Calls that only together have a counterpart. */
  readonly bands: PerSide<readonly Band[]>;
  /** The way of what is wrong, from where it began; all nodes of the npu side. */
  readonly trail: Int32Array;
}

const UNMARKED: Marks = { suspects: [NONE, NONE], bands: [[], []], trail: NONE };

const NOTHING_KNOWN: UnifiedFacts = {
  values: [[], []],
  tensorOf: [[], []],
  tensors: [],
  words: { only: ['', ''], elsewhere: '' },
};

/** What is pointed out in the picture. */
export interface Attention {
  readonly selected: NodeRef | null;
  readonly hovered: NodeRef | null;
  /** The side on which a node without match is to be chosen. */
  readonly wanted: Side | null;
}

/** Draws panes: holds the colours, the search hits, and what drawing has computed before. */
export class Painter {
  palette: Palette = paletteOf('light', []);
  private colours: Colours = DOCUMENTED;
  private hierarchy: Hierarchy | null = null;
  private tones: [Tones | null, Tones | null] = [null, null];
  private pyramids: [Pyramid | null, Pyramid | null] = [null, null];
  private hits: [Int32Array, Int32Array] = [NONE, NONE];
  private marks = UNMARKED;
  private facts = NOTHING_KNOWN;
  readonly measure = new Measure(canvasRuler(document.createElement('canvas').getContext('2d')!));

  setHierarchy(hierarchy: Hierarchy | null): void {
    this.hierarchy = hierarchy;
    this.hits = [NONE, NONE];
    this.marks = UNMARKED;
    this.readTones();
  }

  setPalette(palette: Palette): void {
    this.palette = palette;
  }

  setColours(colours: Colours): void {
    this.colours = colours;
    this.readTones();
  }

  private readTones(): void {
    const { mode, known, asPower } = this.colours;
    const tones = (graph: Graph | null, isReference: boolean) =>
      graph && new Tones(graph, mode, colouringOf(graph, mode, known, isReference), asPower);
    const [npu, bench] = this.hierarchy?.graphs ?? [null, null];
    this.tones = [tones(npu, false), tones(bench, true)];
    this.rowsChanged();
  }

  /** Whether these are others than before. */
  setHits(side: Side, hits: Int32Array): boolean {
    const [npu, bench] = this.hits;
    this.hits = side === Side.NPU ? [hits, NONE] : [NONE, hits];
    return this.hits[0] !== npu || this.hits[1] !== bench;
  }

  setMarks(marks: Marks): void {
    this.marks = marks;
  }

  setFacts(facts: UnifiedFacts): void {
    this.facts = facts;
  }

  rowsChanged(): void {
    this.pyramids = [null, null];
  }

  /** Where the rows of a side stand on its pane. */
  placer(ratio: number, view: View, extent: Extent): Placer {
    const width = extent.contentWidth(view.rowHeight);
    const { rows } = this.hierarchy!;
    return new Placer(rows, view, geometryOf(view.rowHeight), width, ratio);
  }

  /** Draws the minimap of a side whose pane is so high. */
  drawMap({ side, minimap }: Pane, view: View, paneHeight: number, attention: Attention): void {
    const shown = this.shown(side, attention.selected);
    if (!shown) {
      minimap.clear(this.palette.background);
      return;
    }
    const { microStep } = this.hierarchy!;
    drawMinimap({ ...shown, view, surface: minimap, microStep, paneHeight });
  }

  /** Draws one side without its minimap, or both as one tree. */
  drawSide(side: Side, surface: Sheet, view: View, extent: Extent, attention: Attention): void {
    const sides = this.hierarchy?.isUnified ? SIDES : [side];
    const [first, ...more] = sides.flatMap(
      (one) => this.frame(one, surface, view, extent, attention) ?? [],
    );
    if (first) drawPane(first, ...more);
    else surface.clear(this.palette.background);
  }

  /** Where the columns of the one tree stand on its pane; null where they have no room. */
  columns(surface: Sheet, view: View, extent: Extent): Columns | null {
    const attention = { selected: null, hovered: null, wanted: null };
    const frame = this.frame(Side.NPU, surface, view, extent, attention);
    const columns = frame?.unified ? columnsOf(frame) : null;
    return columns?.areShown ? columns : null;
  }

  private frame(
    side: Side,
    surface: Sheet,
    view: View,
    extent: Extent,
    attention: Attention,
  ): Frame | null {
    const { hierarchy } = this;
    const { hovered, wanted } = attention;
    // In one tree a row speaks for both sides.
    const selected = attention.selected && (hierarchy?.spokesman(attention.selected) ?? null);
    const shown = this.shown(side, selected);
    if (!hierarchy || !shown) return null;
    const { tree, open, tones } = shown;
    const rows = hierarchy.drawnRows(side);
    const isOpposite = selected?.side === otherSide(side);
    const opposite = isOpposite ? hierarchy.counterpart(selected) : null;
    const other = hierarchy.trees[otherSide(side)];
    return {
      ...{ ...shown, rows },
      ...{ surface, view, placer: this.placer(surface.ratio, view, extent) },
      deepest: hierarchy.deepest,
      measure: this.measure,
      pyramid: () => (this.pyramids[side] ??= new Pyramid(rows, side, tree, open, tones)),
      counterpart: opposite?.index ?? -1,
      lacking: isOpposite && !opposite ? hierarchy.rowOf(selected) : -1,
      unified: hierarchy.isUnified && other ? { ...this.facts, other } : null,
      facts: this.facts,
      difference: (node) => this.difference(side, node),
      picks: wanted === side,
      hover: hovered ? hierarchy.rowOf(hovered) : -1,
    };
  }

  /** The number of a node; of the reference's that of the node it is compared with. */
  private difference(side: Side, node: number): string {
    const npu = side === Side.NPU ? node : (this.hierarchy?.graphs[side]?.partner[node] ?? -1);
    return npu < 0 ? '' : (this.tones[Side.NPU]?.number(npu) ?? '');
  }

  private shown(side: Side, selected: NodeRef | null) {
    const tree = this.hierarchy?.trees[side];
    const tones = this.tones[side];
    if (!tree || !tones) return null;
    const { rows, expansion } = this.hierarchy!;
    return {
      ...{ side, tree, tones, rows, graph: tree.graph, open: expansion.open[side] },
      ...{ palette: this.palette, hits: this.hits[side], suspects: this.marks.suspects[side] },
      bands: this.marks.bands[side],
      trail: side === Side.NPU ? this.marks.trail : NONE,
      selected: selected?.side === side ? selected.index : -1,
    };
  }
}
