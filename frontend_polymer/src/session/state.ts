import type { ColourMode } from '../data/codes';
import { NO_FIND, type Find } from './find';
import { Side } from '../generated/graph_pb';
import type { HierarchyState } from '../layout/state';

/** What the user looks at: everything a link to a colleague has to carry; see address.ts. */
export interface ViewState {
  /** All steps and ranks of the file, or one of them; `auto` until the catalogue decides. */
  readonly page: 'auto' | 'overview' | 'graph';
  /** Path below the logdir; empty until the catalogue is there. */
  readonly file: string;
  readonly step: number;
  readonly rank: number;
  /** Micro-step, or `ALL_MICRO_STEPS`. */
  readonly micro: number;
  readonly side: Side;
  /** Full name of the selected node; empty when nothing is selected. */
  readonly node: string;
  readonly find: Find;
  /** Whether both sides fold, select and scroll together. */
  readonly sync: boolean;
  /** `auto` says by the verdict where there is one, else by the documented error. */
  readonly colours: ColourMode | 'auto';
  /** Whether small numbers are written as powers of ten. */
  readonly powers: boolean;
  /** Whether what was matched by evidence alone counts as matched. */
  readonly automatic: boolean;
  /** Whether the way of what is wrong to the selected node is drawn. */
  readonly trail: boolean;
  /** The only side that is shown; null for both. */
  readonly only: Side | null;
  /** Whether both sides are shown as one tree. */
  readonly unified: boolean;
  /** What the panel at the bottom shows; empty for the tensors. */
  readonly tab: string;
  /** What the page of trends shows; empty while it is closed. */
  readonly trend: string;
  /** What is unfolded and where it is scrolled to; null leaves both to the graph. */
  readonly look: Look | null;
}

/** How the hierarchies are shown. */
export type Look = Omit<HierarchyState, 'selected'>;

export const ALL_MICRO_STEPS = -1;

export const INITIAL_VIEW: ViewState = {
  page: 'auto',
  file: '',
  step: 0,
  rank: 0,
  micro: ALL_MICRO_STEPS,
  side: Side.NPU,
  node: '',
  find: NO_FIND,
  sync: true,
  colours: 'auto',
  powers: false,
  trail: false,
  automatic: true,
  only: null,
  unified: false,
  tab: '',
  trend: '',
  look: null,
};

export type Listener<T> = (state: T, previous: T) => void;

/** One value that many read: replaced as a whole, never changed in place. */
export class Store<T extends object> {
  private readonly listeners = new Set<Listener<T>>();
  /** What listeners were told last, while changes are kept back. */
  private told: T | null = null;

  constructor(private value: T) {}

  get state(): T {
    return this.value;
  }

  update(patch: Partial<T>): void {
    const previous = this.value;
    const keys = Object.keys(patch) as (keyof T)[];
    if (keys.every((key) => Object.is(previous[key], patch[key]))) return;
    this.value = { ...previous, ...patch };
    if (this.told === null) this.tell(previous);
  }

  /** Makes several changes that listeners hear of as one: each draws everything anew. */
  together<R>(work: () => R): R {
    if (this.told !== null) return work();
    const before = (this.told = this.value);
    try {
      return work();
    } finally {
      this.told = null;
      if (this.value !== before) this.tell(before);
    }
  }

  private tell(previous: T): void {
    for (const listener of this.listeners) listener(this.value, previous);
  }

  subscribe(listener: Listener<T>): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
