import type { Graph } from '../data/graph';
import type { Side } from '../generated/graph_pb';
import type { Rows } from '../layout/rows';
import type { Tree } from '../layout/tree';
import type { Band } from './band';
import type { Placer } from './geometry';
import type { Measure } from './measure';
import type { Palette } from './palette';
import type { Pyramid } from './pyramid';
import type { Sheet } from './sheet';
import type { Tones } from './tone';
import type { Unified, UnifiedFacts } from './unified-facts';
import type { View } from './viewport';

/** Everything that decides what one pane looks like. */
export interface Frame {
  readonly surface: Sheet;
  readonly placer: Placer;
  readonly side: Side;
  readonly graph: Graph;
  readonly tree: Tree;
  readonly rows: Rows;
  /** The deepest level of either side. */
  readonly deepest: number;
  readonly open: Uint8Array;
  readonly view: View;
  readonly palette: Palette;
  readonly tones: Tones;
  readonly pyramid: () => Pyramid;
  readonly measure: Measure;
  /** Selected on this side, -1 for none. */
  readonly selected: number;
  /** What stands for the one selected on the other side, -1 for none. */
  readonly counterpart: number;
  /** Row of the one selected on the other side where this side has nothing, -1 for none. */
  readonly lacking: number;
  /** Row under the pointer on either side, -1 for none. */
  readonly hover: number;
  /** Whether only nodes without match stand out. */
  readonly picks: boolean;
  /** Who may be to blame on this side, ascending. */
  readonly suspects: Int32Array;
  readonly bands: readonly Band[];
  /** The way of what is wrong, from where it began. */
  readonly trail: Int32Array;
  readonly facts: UnifiedFacts;
  /** How far a node is off, as it is written beside it. */
  readonly difference: (node: number) => string;
  /** The other side, where both are one tree. */
  readonly unified: Unified | null;
  /** Search hits of this side, ascending. */
  readonly hits: Int32Array;
}
