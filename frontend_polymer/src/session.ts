import { fetchCatalog, fetchGraph, fetchNode, fetchSearch } from './data/api';
import { ProblemError } from './data/problem';
import { isEmptyFind, NO_FIND, searchQuery, type Find } from './find';
import {
  Side,
  type Catalog,
  type DatabaseFile,
  type GraphPair,
  type NodeDetail,
} from './generated/graph_pb';
import { hitsIn, noHits, stepInFile, stepInGraph, type FileHits, type Hits } from './hits';
import type { NodeRef } from './layout/hierarchy';
import { SIDES, type Graphs } from './layout/sides';
import { ALL_MICRO_STEPS, Store, type ViewState } from './state';

export interface AppState {
  readonly view: ViewState;
  readonly catalog: Catalog | null;
  readonly graphs: Graphs | null;
  readonly selected: NodeRef | null;
  readonly detail: NodeDetail | null;
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
  /** Where jumps to other steps and ranks set out from, the last one at the end. */
  readonly trail: readonly ViewState[];
}

const NOTHING_SHOWN = {
  graphs: null,
  selected: null,
  detail: null,
  hits: null,
  pick: false,
  picked: null,
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
  private searchingFile = new AbortController();
  private searchedFile = '';

  constructor(view: ViewState) {
    this.store = new Store<AppState>({
      ...NOTHING_SHOWN,
      view,
      fileHits: null,
      searching: false,
      catalog: null,
      busy: null,
      trail: [],
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
    if (view.find !== shown.find) this.find();
    await this.select(nodeIn(graphs, view));
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
    this.find();
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

  /** Lists nodes to step through, in execution order. */
  setHits(hits: Omit<Hits, 'position' | 'sequence'>): void {
    this.searchingFile.abort();
    const sequence = hits.indices;
    this.store.update({ hits: { ...hits, sequence, position: -1 }, fileHits: null });
  }

  /** Looks for something else, or elsewhere. */
  setFind(change: Partial<Find>): void {
    const { view } = this.state;
    this.store.update({ view: { ...view, find: { ...view.find, ...change } } });
    this.find();
  }

  clearFind(kept: Partial<Find> = {}): void {
    this.setFind({ ...NO_FIND, ...kept });
  }

  /** The next or previous hit, seen from the selected node, going round at the ends. */
  stepHit(direction: 1 | -1): NodeRef | null {
    const { hits, fileHits, selected } = this.state;
    const position = fileHits
      ? stepInFile(fileHits, direction)
      : stepInGraph(hits, selected, direction);
    return position < 0 ? null : this.chooseHit(position);
  }

  /** The hit at this place of the list; null when it is in another graph, which is opened. */
  chooseHit(position: number): NodeRef | null {
    const { hits, fileHits } = this.state;
    if (!fileHits) {
      const index = hits?.sequence[position];
      if (!hits || index === undefined) return null;
      this.store.update({ hits: { ...hits, position } });
      return { side: hits.side, index };
    }
    const { result } = fileHits;
    this.store.update({ fileHits: { ...fileHits, position } });
    void this.goTo({
      step: result.step[position]!,
      rank: result.rank[position]!,
      side: SIDES[result.side[position]!]!,
      node: result.name[position]!,
    });
    return null;
  }

  /** Asks for the node to match the selected one with. */
  startPick(): void {
    this.store.update({ pick: !this.state.pick, picked: null });
  }

  endPick(picked: NodeRef | null): void {
    this.store.update({ pick: false, picked });
  }

  /** Takes over what has changed in the file; the view stays. */
  async reload(): Promise<void> {
    const signal = this.begin('graph');
    try {
      const catalog = await fetchCatalog(signal);
      const { view } = this.state;
      const graphs = await this.fetchGraphs(view, signal);
      if (signal.aborted) return;
      this.store.update({ ...NO_DETAIL, catalog, graphs, busy: null, picked: null });
      this.find();
      // Another node may have been selected meanwhile.
      await this.select(nodeIn(graphs, this.state.view));
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Shows a node of any step and rank. */
  async goTo(place: Pick<ViewState, 'step' | 'rank' | 'side' | 'node'>): Promise<void> {
    await this.follow({ ...this.state.view, ...place, page: 'graph' });
  }

  private find(): void {
    const { graphs, view, hits } = this.state;
    const { find } = view;
    const listed = find.scope === 'file' ? this.state.fileHits : hits;
    this.searchingFile.abort();
    if (isEmptyFind(find)) {
      const isOurs = hits?.source !== 'legend';
      this.store.update({ ...(isOurs ? { hits: null } : {}), fileHits: null, searching: false });
      return;
    }
    if (find.scope === 'file') {
      void this.findInFile(find, listed as FileHits | null);
      return;
    }
    const side = graphs?.[find.side] ? find.side : Side.NPU;
    const graph = graphs?.[side];
    this.store.update({
      ...{ fileHits: null, searching: false },
      ...(graph ? { hits: hitsIn(graph, find, side, view.micro) } : {}),
    });
  }

  private async findInFile(find: Find, listed: FileHits | null): Promise<void> {
    const { file } = this.state.view;
    const query = { file, ...searchQuery(find) };
    const key = JSON.stringify(query);
    if (listed && this.searchedFile === key) return;
    this.searchingFile = new AbortController();
    const { signal } = this.searchingFile;
    this.store.update({ hits: null, searching: true });
    try {
      const result = await fetchSearch(query, signal);
      if (signal.aborted) return;
      this.searchedFile = key;
      this.store.update({ fileHits: { result, position: -1 }, searching: false });
    } catch (error) {
      if (signal.aborted) return;
      const { message, remedy } = asProblem(error);
      const hits = { ...noHits(find, find.side), failure: `${message} ${remedy}` };
      this.store.update({ searching: false, fileHits: null, hits });
    }
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
    const graphs = await this.fetchGraphs(view, signal);
    if (signal.aborted) return;
    this.store.update({ graphs, busy: null });
    this.find();
    await this.select(nodeIn(graphs, view));
  }

  private async fetchGraphs({ file, step, rank }: ViewState, signal: AbortSignal): Promise<Graphs> {
    const key = { file, step, rank };
    return Promise.all([
      fetchGraph({ ...key, side: Side.NPU }, signal),
      hasBench(this.state) ? fetchGraph({ ...key, side: Side.BENCH }, signal) : null,
    ]);
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

function nodeIn(graphs: Graphs, view: ViewState): NodeRef | null {
  const graph = graphs[view.side];
  if (!view.node || !graph) return null;
  for (let index = 0; index < graph.count; index++) {
    if (graph.name(index) === view.node) return { side: view.side, index };
  }
  return null;
}

export function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return new ProblemError('unexpected', error instanceof Error ? error.message : String(error));
}
