// What rows say of what their nodes put out, on this side and, in the one tree, on the other.

import type { PerSide } from '../layout/sides';
import type { Tree } from '../layout/tree';

/** What the one tree knows besides the hierarchies. */
export interface UnifiedFacts {
  /** Per node the norm of what it puts out, -1 for none; empty while nothing is known. */
  readonly values: PerSide<readonly number[]>;
  /** Of the same outputs the place of shape and type in `tensors`, plus 1; 0 for none. */
  readonly tensorOf: PerSide<readonly number[]>;
  readonly tensors: readonly string[];
  /** What stands at a row that one side has alone. */
  readonly words: { readonly only: PerSide<string>; readonly elsewhere: string };
}

/** The other side of a frame that draws its part of the one tree. */
export interface Unified extends UnifiedFacts {
  readonly other: Tree;
}
