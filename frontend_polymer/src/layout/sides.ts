import type { Graph } from '../data/graph';
import { Side } from '../generated/graph_pb';

/** One value per side, indexed by `Side`. */
export type PerSide<T> = readonly [npu: T, bench: T];

/** The graph under debug and the reference; no reference in a build of one run. */
export type Graphs = PerSide<Graph | null> & { readonly 0: Graph };

export const SIDES: readonly Side[] = [Side.NPU, Side.BENCH];

export function otherSide(side: Side): Side {
  return side === Side.NPU ? Side.BENCH : Side.NPU;
}

/** Modules that one side has in between, one in the other; deeper down it is another model. */
export const MOST_WRAPPERS = 4;
