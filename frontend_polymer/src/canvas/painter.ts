import type { ColourMode } from '../data/codes';
import { colouringOf, type Known } from '../data/colouring';
import type { Graph } from '../data/graph';
import { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { otherSide, type PerSide } from '../layout/sides';
import type { Band } from './band';
import { drawPane } from './draw';
import { geometryOf, Placer } from './geometry';
import { canvasRuler, Measure } from './measure';
import { drawMinimap } from './minimap';
import { paletteOf, type Palette } from './palette';
import type { Pane } from './panes';
import { Pyramid } from './pyramid';
import type { Sheet } from './sheet';
import { Tones } from './tone';
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

  setHits(side: Side, hits: Int32Array): void {
    this.hits = side === Side.NPU ? [hits, NONE] : [NONE, hits];
  }

  setMarks(marks: Marks): void {
    this.marks = marks;
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

  draw({ side, surface, minimap }: Pane, view: View, extent: Extent, attention: Attention): void {
    this.drawSide(side, surface, view, extent, attention);
    const shown = this.shown(side, attention.selected);
    if (!shown) {
      minimap.clear(this.palette.background);
      return;
    }
    const { microStep } = this.hierarchy!;
    drawMinimap({ ...shown, view, surface: minimap, microStep, paneHeight: surface.height });
  }

  /** Draws one side without its minimap. */
  drawSide(side: Side, surface: Sheet, view: View, extent: Extent, attention: Attention): void {
    const { hierarchy, palette } = this;
    const shown = this.shown(side, attention.selected);
    if (!hierarchy || !shown) {
      surface.clear(palette.background);
      return;
    }
    const { rows, tree, open, tones } = shown;
    const { selected, hovered, wanted } = attention;
    const opposite = selected?.side === otherSide(side) ? hierarchy.counterpart(selected) : null;
    drawPane({
      ...shown,
      ...{ surface, view, placer: this.placer(surface.ratio, view, extent) },
      measure: this.measure,
      pyramid: () => (this.pyramids[side] ??= new Pyramid(rows, side, tree, open, tones)),
      counterpart: opposite?.index ?? -1,
      picks: wanted === side,
      hover: hovered ? hierarchy.rowOf(hovered) : -1,
    });
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
