/** Calls of one side that together do what calls of the other side do. */
export interface Band {
  /** What they do, and how sure that is. */
  readonly label: string;
  /** Ascending. */
  readonly nodes: readonly number[];
}
