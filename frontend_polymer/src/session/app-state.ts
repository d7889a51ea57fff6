import type { Measured } from '../data/colouring';
import type { ProblemError } from '../data/problem';
import type {
  Catalog,
  DatabaseFile,
  GraphPair,
  Groups,
  NodeDetail,
  NodeFlow,
  Suspect,
  Values,
} from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import type { Graphs } from '../layout/sides';
import type { FileHits, Hits } from './hits';
import { pairIn, type Unmet } from './nearest';
import type { ViewState } from './state';

/** Everything that the elements show. */
export interface AppState {
  readonly view: ViewState;
  readonly catalog: Catalog | null;
  readonly graphs: Graphs | null;
  /** Comes after the graphs; null also where there is none. */
  readonly measures: Measured | null;
  /** Why the measures are not there, where that is worth a word. */
  readonly measuring: Measuring;
  /** What nodes put out, while both sides are one tree; null also where there is no reference. */
  readonly values: Values | null;
  /** Calls that only together have a counterpart; comes after the graphs. */
  readonly groups: Groups | null;
  readonly selected: NodeRef | null;
  readonly detail: NodeDetail | null;
  /** Of the suspect that the verdict card shows. */
  readonly lead: Lead | null;
  /** Of the node selected last that somebody asked it of. */
  readonly flow: Flow | null;
  readonly flowProblem: string;
  readonly hits: Hits | null;
  /** Instead of `hits`, when all steps and ranks are searched. */
  readonly fileHits: FileHits | null;
  readonly searching: boolean;
  /** The next click on the other side names the node to match with. */
  readonly pick: boolean;
  readonly picked: NodeRef | null;
  readonly busy: 'catalog' | 'graph' | null;
  readonly detailBusy: boolean;
  /** What keeps the file or graph from being shown. */
  readonly problem: ProblemError | null;
  readonly detailProblem: ProblemError | null;
  /** What the address asks for and cannot have. */
  readonly unmet: readonly Unmet[];
  /** What became of the file while it was shown. */
  readonly news: News | null;
  /** Counts what the user may want to go back from. */
  readonly jumps: number;
  /** Where jumps to other steps and ranks set out from, the last one at the end. */
  readonly trail: readonly ViewState[];
}

/** Why the measures are not there: they take long, or cannot be had. */
export type Measuring = 'late' | ProblemError | null;

/** A suspect with its node. */
export interface Lead {
  readonly suspect: Suspect;
  readonly detail: NodeDetail;
}

/** Where the tensors of a node come from and go. */
export interface Flow {
  readonly node: NodeRef;
  readonly found: NodeFlow;
}

export type News = 'changed' | 'gone' | 'broken';

/** While there is no graph. */
export const NOTHING_SHOWN = {
  graphs: null,
  measures: null,
  measuring: null,
  values: null,
  groups: null,
  selected: null,
  detail: null,
  flow: null,
  flowProblem: '',
  hits: null,
  pick: false,
  picked: null,
  problem: null,
  detailProblem: null,
  detailBusy: false,
} as const;

/** The file that is shown. */
export function fileOf({ catalog, view }: AppState): DatabaseFile | undefined {
  return catalog?.files.find((file) => file.file === view.file);
}

/** The step and rank that is shown. */
export function pairOf(state: AppState): GraphPair | undefined {
  return pairIn(fileOf(state), state.view);
}

/** Whether there is a reference beside the model; known before the graphs are loaded. */
export function hasBench(state: AppState): boolean {
  return (pairOf(state)?.benchNodes ?? 0) > 0;
}

/** Whether a server can be asked for what it makes; a page that holds its own data has none. */
export function hasServer({ catalog }: AppState): boolean {
  return !catalog?.page;
}
