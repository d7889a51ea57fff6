import { fetchCatalog, fetchGraph, fetchNode } from './data/api';
import { ProblemError } from './data/problem';
import { nextHit, previousHit } from './data/search';
import {
  Side,
  type Catalog,
  type DatabaseFile,
  type GraphPair,
  type NodeDetail,
} from './generated/graph_pb';
import type { NodeRef } from './layout/hierarchy';
import type { Graphs } from './layout/sides';
import { ALL_MICRO_STEPS, Store, type ViewState } from './state';

/** Nodes of one side to step through, in execution order. */
export interface Hits {
  readonly source: 'search' | 'legend';
  /** The query, or the entry of the legend, that these are the hits of. */
  readonly key: string;
  readonly side: Side;
  readonly indices: Int32Array;
  /** Place of the hit shown last, -1 before the first step. */
  readonly position: number;
}

export interface AppState {
  readonly view: ViewState;
  readonly catalog: Catalog | null;
  readonly graphs: Graphs | null;
  readonly selected: NodeRef | null;
  readonly detail: NodeDetail | null;
  readonly hits: Hits | null;
  readonly busy: 'catalog' | 'graph' | null;
  readonly detailBusy: boolean;
  /** What keeps the file or graph from being shown. */
  readonly problem: ProblemError | null;
  readonly detailProblem: ProblemError | null;
}

const NOTHING_SHOWN = {
  graphs: null,
  selected: null,
  detail: null,
  hits: null,
  problem: null,
  detailProblem: null,
  detailBusy: false,
} as const;

/**
 * Moves between files, steps, ranks and nodes, and keeps the state that the elements show.
 * A request that a newer one replaces is aborted, and its answer never reaches the state.
 */
export class Session {
  readonly store: Store<AppState>;
  private loading = new AbortController();
  private loadingDetail = new AbortController();

  constructor(view: ViewState) {
    this.store = new Store<AppState>({
      ...NOTHING_SHOWN,
      view,
      catalog: null,
      busy: null,
    });
  }

  get state(): AppState {
    return this.store.state;
  }

  /** Looks for files and shows the one asked for, or the first that can be shown. */
  async refresh(): Promise<void> {
    const signal = this.begin('catalog');
    try {
      const catalog = await fetchCatalog(signal);
      if (signal.aborted) return;
      this.store.update({ catalog });
      await this.show(this.state.view, signal);
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Shows what a link asks for; the graphs are kept when they are the right ones. */
  async follow(view: ViewState): Promise<void> {
    const { view: shown, graphs } = this.state;
    const isSameGraph =
      graphs &&
      shown.page === view.page &&
      shown.file === view.file &&
      shown.step === view.step &&
      shown.rank === view.rank;
    if (!isSameGraph) return this.open(view);
    this.store.update({ view });
    await this.select(find(graphs, view));
  }

  /** Shows another file, step, rank; keeps the selected node by name where it exists. */
  async open(change: Partial<ViewState>): Promise<void> {
    const signal = this.begin('graph');
    try {
      await this.show({ ...this.state.view, ...change }, signal);
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Shows all steps and ranks; the graph stays as it is for the way back. */
  showOverview(): void {
    this.store.update({ view: { ...this.state.view, page: 'overview' } });
  }

  /** Shows the graph of a step and rank, as it was left if it is the one shown before. */
  async enter(step: number, rank: number): Promise<void> {
    const { view, graphs } = this.state;
    if (graphs && view.step === step && view.rank === rank) {
      this.store.update({ view: { ...view, page: 'graph' } });
      return;
    }
    await this.open({ page: 'graph', step, rank });
  }

  setMicroStep(micro: number): void {
    this.store.update({ view: { ...this.state.view, micro }, hits: null });
  }

  /** Selects a node and loads its details; null clears the selection. */
  async select(node: NodeRef | null): Promise<void> {
    const { graphs, view, selected, detail } = this.state;
    const graph = graphs?.[node?.side ?? Side.NPU];
    if (node === null || !graph) {
      this.loadingDetail.abort();
      this.store.update({ ...NO_DETAIL, selected: null, view: { ...view, node: '' } });
      return;
    }
    if (selected?.side === node.side && selected.index === node.index && detail) return;
    this.loadingDetail.abort();
    this.loadingDetail = new AbortController();
    const { signal } = this.loadingDetail;
    const { file, step, rank } = view;
    this.store.update({
      selected: node,
      detailBusy: true,
      detailProblem: null,
      view: { ...view, side: node.side, node: graph.name(node.index) },
    });
    try {
      const next = await fetchNode({ file, step, rank, side: node.side }, node.index, signal);
      if (!signal.aborted) this.store.update({ ...NO_DETAIL, detail: next });
    } catch (error) {
      if (!signal.aborted) this.store.update({ ...NO_DETAIL, detailProblem: asProblem(error) });
    }
  }

  setHits(hits: Omit<Hits, 'position'>): void {
    this.store.update({ hits: { ...hits, position: -1 } });
  }

  clearHits(): void {
    this.store.update({ hits: null });
  }

  /** The next or previous hit, seen from the selected node, going round at the ends. */
  stepHit(direction: 1 | -1): NodeRef | null {
    const { hits, selected } = this.state;
    if (!hits || hits.indices.length === 0) return null;
    const { indices, side } = hits;
    const from = selected?.side === side ? selected.index : (indices[hits.position] ?? -1);
    const position = direction === 1 ? nextHit(indices, from) : previousHit(indices, from);
    this.store.update({ hits: { ...hits, position } });
    return { side, index: indices[position]! };
  }

  private begin(busy: 'catalog' | 'graph'): AbortSignal {
    this.loading.abort();
    this.loadingDetail.abort();
    this.loading = new AbortController();
    this.store.update({ busy });
    return this.loading.signal;
  }

  private async show(wanted: ViewState, signal: AbortSignal): Promise<void> {
    const view = this.nearest(wanted);
    this.store.update({ ...NOTHING_SHOWN, view, busy: 'graph' });
    const file = fileOf(this.state);
    if (!file) {
      this.store.update({ busy: null });
      return;
    }
    if (file.problem) {
      throw new ProblemError(file.problem.code, file.problem.message, file.problem.remedy);
    }
    if (view.page === 'overview') {
      this.store.update({ busy: null });
      return;
    }
    const pair = pairIn(file, view)!;
    const key = { file: view.file, step: view.step, rank: view.rank };
    const [npu, bench] = await Promise.all([
      fetchGraph({ ...key, side: Side.NPU }, signal),
      pair.benchNodes > 0 ? fetchGraph({ ...key, side: Side.BENCH }, signal) : null,
    ]);
    if (signal.aborted) return;
    this.store.update({ graphs: [npu, bench], busy: null });
    const node = find([npu, bench], view);
    await this.select(node);
  }

  /** The view that exists and is nearest to the one wanted. */
  private nearest(wanted: ViewState): ViewState {
    const files = this.state.catalog?.files ?? [];
    const file =
      files.find((candidate) => candidate.file === wanted.file) ??
      files.find((candidate) => !candidate.problem) ??
      files[0];
    if (!file) return { ...wanted, file: '', node: '' };
    const auto = file.graphs.length > 1 ? 'overview' : 'graph';
    const page = wanted.page === 'auto' ? auto : wanted.page;
    const pair = pairIn(file, wanted) ?? nearestPair(file.graphs, wanted);
    const micro = pair && wanted.micro < pair.microSteps ? wanted.micro : ALL_MICRO_STEPS;
    const { step, rank } = pair ?? wanted;
    return { ...wanted, page, file: file.file, step, rank, micro };
  }

  private fail(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.store.update({ ...NOTHING_SHOWN, busy: null, problem: asProblem(error) });
  }
}

const NO_DETAIL = { detail: null, detailBusy: false, detailProblem: null } as const;

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

function pairIn(
  file: DatabaseFile | undefined,
  view: Pick<ViewState, 'step' | 'rank'>,
): GraphPair | undefined {
  return file?.graphs.find((pair) => pair.step === view.step && pair.rank === view.rank);
}

/** Another rank of the same step before anything else. */
function nearestPair(
  pairs: readonly GraphPair[],
  view: Pick<ViewState, 'step'>,
): GraphPair | undefined {
  return pairs.find((pair) => pair.step === view.step) ?? pairs[0];
}

function find(graphs: Graphs, view: ViewState): NodeRef | null {
  const graph = graphs[view.side];
  if (!view.node || !graph) return null;
  for (let index = 0; index < graph.count; index++) {
    if (graph.name(index) === view.node) return { side: view.side, index };
  }
  return null;
}

function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return new ProblemError('unexpected', error instanceof Error ? error.message : String(error));
}
