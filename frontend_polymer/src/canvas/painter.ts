import { Side } from '../generated/graph_pb';
import type { Hierarchy, NodeRef } from '../layout/hierarchy';
import { otherSide } from '../layout/sides';
import { drawPane } from './draw';
import { geometryOf, Placer } from './geometry';
import { canvasRuler, Measure } from './measure';
import { drawMinimap } from './minimap';
import { paletteOf, type Palette, type Theme } from './palette';
import type { Pane } from './panes';
import { Pyramid } from './pyramid';
import { Tones, type ColourMode } from './tone';
import type { Extent, View } from './viewport';

const NONE = new Int32Array();

/** What is pointed out in the picture. */
export interface Attention {
  readonly selected: NodeRef | null;
  readonly hovered: NodeRef | null;
}

/** Draws panes: holds the colours, the search hits, and what drawing has computed before. */
export class Painter {
  palette: Palette = paletteOf('light');
  private mode: ColourMode = 'precision';
  private hierarchy: Hierarchy | null = null;
  private tones: [Tones | null, Tones | null] = [null, null];
  private pyramids: [Pyramid | null, Pyramid | null] = [null, null];
  private hits: [Int32Array, Int32Array] = [NONE, NONE];
  private readonly measure = new Measure(
    canvasRuler(document.createElement('canvas').getContext('2d')!),
  );

  setHierarchy(hierarchy: Hierarchy | null): void {
    this.hierarchy = hierarchy;
    this.hits = [NONE, NONE];
    this.setMode(this.mode);
  }

  setTheme(theme: Theme): void {
    this.palette = paletteOf(theme);
  }

  setMode(mode: ColourMode): void {
    this.mode = mode;
    const [npu, bench] = this.hierarchy?.graphs ?? [null, null];
    this.tones = [npu && new Tones(npu, mode), bench && new Tones(bench, mode)];
    this.rowsChanged();
  }

  setHits(side: Side, hits: Int32Array): void {
    this.hits = side === Side.NPU ? [hits, NONE] : [NONE, hits];
  }

  rowsChanged(): void {
    this.pyramids = [null, null];
  }

  /** Where the rows of a side stand on its pane. */
  placer(pane: Pane, view: View, extent: Extent): Placer {
    const width = extent.contentWidth(view.rowHeight);
    const { rows } = this.hierarchy!;
    return new Placer(rows, view, geometryOf(view.rowHeight), width, pane.surface.ratio);
  }

  draw(pane: Pane, view: View, extent: Extent, attention: Attention): void {
    const { side, surface, minimap } = pane;
    const { hierarchy, palette } = this;
    const tree = hierarchy?.trees[side];
    const tones = this.tones[side];
    if (!hierarchy || !tree || !tones) {
      surface.clear(palette.background);
      minimap.clear(palette.background);
      return;
    }
    const { graph } = tree;
    const { rows, expansion, microStep } = hierarchy;
    const { selected, hovered } = attention;
    const open = expansion.open[side];
    const opposite = selected?.side === otherSide(side) ? hierarchy.counterpart(selected) : null;
    const common = {
      ...{ side, graph, tree, rows, open, tones, palette, view, hits: this.hits[side] },
      selected: selected?.side === side ? selected.index : -1,
    };
    drawPane({
      ...common,
      ...{ surface, placer: this.placer(pane, view, extent), measure: this.measure },
      pyramid: () => (this.pyramids[side] ??= new Pyramid(rows, side, tree, open, tones)),
      counterpart: opposite?.index ?? -1,
      hover: hovered ? hierarchy.rowOf(hovered) : -1,
    });
    drawMinimap({ ...common, surface: minimap, microStep, paneHeight: surface.height });
  }
}
