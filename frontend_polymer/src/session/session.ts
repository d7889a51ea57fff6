import { browserFetch, ask, fetchGraph, type Fetch } from '../data/api';
import { asProblem, ProblemError } from '../data/problem';
import { Finding, type NodePlace } from './finding';
import { Grade, Side, type Catalog } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import type { Graphs } from '../layout/sides';
import { fileOf, hasBench, NOTHING_SHOWN, type AppState } from './app-state';
import { drawn } from './drawn';
import { loadMeasures } from './measuring';
import { followLead } from './lead';
import { nearestView, nodeIn, unmetIn, type Unmet } from './nearest';
import { Store, type ViewState } from './state';
import { Tracing } from './tracing';
import { followValues } from './values';
import { initialSelection } from './verdict';

/**
 * Moves between files, steps, ranks and nodes, and keeps the state that the elements show.
 * A request that a newer one replaces is aborted, and its answer never reaches the state.
 */
export class Session {
  readonly store: Store<AppState>;
  private loading = new AbortController();
  private loadingDetail = new AbortController();
  readonly finding: Finding;
  readonly tracing: Tracing;
  private isWalking = false;
  /** The graphs as the file has them. */
  private loaded: Graphs | null = null;

  constructor(
    view: ViewState,
    readonly fetch: Fetch = browserFetch,
  ) {
    this.store = new Store<AppState>({
      ...NOTHING_SHOWN,
      view,
      lead: null,
      fileHits: null,
      searching: false,
      catalog: null,
      busy: null,
      unmet: [],
      news: null,
      jumps: 0,
      trail: [],
    });
    followValues(this.store, this.fetch);
    followLead(this.store, this.fetch);
    this.tracing = new Tracing(this.store, this.fetch);
    this.finding = new Finding(this.store, this.fetch, (place) => void this.goTo(place));
  }

  get state(): AppState {
    return this.store.state;
  }

  /** Looks for files and shows the one asked for, or the first that can be shown. */
  async refresh(view: ViewState = this.state.view): Promise<void> {
    const signal = this.begin('catalog');
    try {
      const catalog = await ask(this.fetch, 'catalog', {}, signal);
      if (signal.aborted) return;
      await this.store.together(() => {
        this.store.update({ catalog });
        return this.show(view, signal);
      });
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Looks for files without disturbing what is shown; says what became of the file. */
  async lookAround(): Promise<void> {
    const { busy, problem, view } = this.state;
    if (busy) return;
    const { signal } = this.loading;
    let catalog: Catalog;
    try {
      catalog = await ask(this.fetch, 'catalog', {}, signal);
    } catch {
      return; // whoever asks for something will hear of it
    }
    if (signal.aborted) return;
    const before = fileOf(this.state);
    this.store.update({ catalog });
    const file = fileOf(this.state);
    if (before && !problem) {
      const isChanged = file?.revision !== (this.state.graphs?.[Side.NPU] ?? before).revision;
      const news = !file ? 'gone' : file.problem ? 'broken' : isChanged ? 'changed' : null;
      this.store.update({ news });
    } else if (problem?.code === 'no-answer' || (file ? !file.problem : view.file === '')) {
      await this.load(this.state.view);
    }
  }

  /** Shows what a link asks for; the graphs are kept when they are the right ones. */
  async follow(view: ViewState, isJump = false): Promise<void> {
    const { view: shown, graphs } = this.state;
    this.isWalking = false;
    if (view.page === 'overview' && view.file === shown.file && !this.state.problem) {
      const { trend } = view;
      this.store.update({ view: { ...shown, page: 'overview', trend }, unmet: [] });
      return;
    }
    const isSameGraph =
      graphs &&
      view.page === 'graph' &&
      shown.file === view.file &&
      shown.step === view.step &&
      shown.rank === view.rank;
    if (!isSameGraph) return this.load(view, isJump);
    const node = nodeIn(graphs, view);
    const reached = { ...view, node: node ? view.node : '' };
    const isKept = this.isSelected(node);
    this.store.update({
      ...(isKept ? {} : selection(node)),
      ...(isJump ? this.jump() : {}),
      ...{ view: reached, unmet: unmetIn(view, reached) },
    });
    this.finding.run();
    if (!isKept) await this.loadDetail();
  }

  /** Shows another file, step, rank; keeps the selected node by name where it exists. */
  async open(change: Partial<ViewState>): Promise<void> {
    await this.load({ ...this.state.view, ...change, look: null }, true);
  }

  /** Shows all steps and ranks; the graph stays as it is for the way back. */
  showOverview(): void {
    this.store.update({ view: { ...this.state.view, page: 'overview' }, ...this.jump() });
  }

  /** Shows the graph of a step and rank, as it was left if it is the one shown before. */
  async enter(step: number, rank: number): Promise<void> {
    const { view, graphs } = this.state;
    if (graphs && view.step === step && view.rank === rank) {
      this.store.update({ view: { ...view, page: 'graph' }, ...this.jump() });
      return;
    }
    await this.open({ page: 'graph', step, rank });
  }

  setMicroStep(micro: number): void {
    this.store.update({ view: { ...this.state.view, micro }, hits: null, ...this.jump() });
    this.finding.run();
  }

  /** Changes how the graph is shown, not what. */
  setView(change: Partial<Shown>): void {
    // One tree has both sides, one side alone is no tree of two.
    const isAlone = change.only !== undefined && change.only !== null;
    const apart = isAlone ? { unified: false } : {};
    const view = { ...this.state.view, ...(change.unified && { only: null }), ...apart, ...change };
    const isOther = view.automatic !== this.state.view.automatic;
    const graphs = isOther && this.loaded ? { graphs: seen(this.loaded, view) } : {};
    this.store.update({ view, ...graphs });
    if (isOther) this.finding.run();
  }

  /** Adds to what the address asks for and cannot have; the note goes with the next jump. */
  miss(unmet: readonly Unmet[]): void {
    if (unmet.length > 0) this.store.update({ unmet: [...this.state.unmet, ...unmet] });
  }

  dismiss(): void {
    this.store.update({ unmet: [], news: null });
  }

  /**
   * Selects a node and loads its details; null clears the selection. A walk from row to row is one
   * thing to go back from.
   */
  async select(node: NodeRef | null, how: 'jump' | 'walk' = 'jump'): Promise<void> {
    const { graphs, view } = this.state;
    const graph = graphs?.[node?.side ?? Side.NPU];
    if (node === null || !graph) {
      this.loadingDetail.abort();
      this.store.update({ ...selection(null), view: { ...view, node: '' } });
      return;
    }
    if (this.isSelected(node) && this.state.detail) return;
    const isWalkOn = how === 'walk' && this.isWalking;
    const jump = isWalkOn ? {} : this.jump();
    this.isWalking = how === 'walk';
    const name = graph.name(node.index);
    const only = view.only === null ? null : node.side;
    this.store.update({
      ...{ ...selection(node), ...jump },
      view: { ...view, only, side: node.side, node: name },
    });
    await this.loadDetail();
  }

  /** Asks for the node to match the selected one with. */
  startPick(): void {
    this.store.update({ pick: !this.state.pick, picked: null });
  }

  endPick(picked: NodeRef | null): void {
    this.store.update({ pick: false, picked });
  }

  /** Proposes two nodes for a match: the one without match is selected, the other picked. */
  async propose(npu: NodeRef, bench: NodeRef): Promise<void> {
    const isFree = this.state.graphs?.[Side.NPU].gradeOf(npu.index) === Grade.UNMATCHED;
    const [node, other] = isFree ? [npu, bench] : [bench, npu];
    await this.select(node);
    if (this.isSelected(node)) this.endPick(other);
  }

  /** Takes over what has changed in the file; the view stays. */
  async reload(): Promise<void> {
    const signal = this.begin('graph');
    try {
      const catalog = await ask(this.fetch, 'catalog', {}, signal);
      signal.throwIfAborted();
      const { view } = this.state;
      const file = fileOf({ ...this.state, catalog });
      if (file === undefined || file.problem !== undefined) {
        this.store.update({ catalog, news: null });
        await this.load(view);
        return;
      }
      const graphs = await this.fetchGraphs({ ...this.state, catalog }, signal);
      if (signal.aborted) return;
      const node = nodeIn(graphs, this.state.view);
      // Together: what may be undone is in the catalogue, what it is asked of in the graphs.
      this.store.update({
        ...{ ...NO_DETAIL, ...selection(node), catalog, graphs },
        ...{ busy: null, news: null, picked: null },
      });
      this.finding.run();
      await this.loadDetail();
      void loadMeasures(this.store, this.fetch, signal);
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Shows a node of any step and rank. */
  async goTo(place: NodePlace): Promise<void> {
    const { view } = this.state;
    const only = view.only === null ? null : place.side;
    await this.follow({ ...view, ...place, only, page: 'graph', look: null }, true);
  }

  private async load(view: ViewState, isJump = false): Promise<void> {
    const signal = this.begin('graph');
    try {
      await this.show(view, signal, isJump);
    } catch (error) {
      this.fail(error, signal);
    }
  }

  private begin(busy: 'catalog' | 'graph'): AbortSignal {
    this.loading.abort();
    this.loadingDetail.abort();
    this.loading = new AbortController();
    this.store.update({ busy });
    return this.loading.signal;
  }

  private async show(wanted: ViewState, signal: AbortSignal, isJump = false): Promise<void> {
    const { catalog } = this.state;
    const view = nearestView(catalog, wanted);
    const jump = isJump ? this.jump() : {};
    this.store.update({ ...NOTHING_SHOWN, ...jump, view, busy: 'graph', unmet: [], news: null });
    const file = fileOf(this.state);
    if (!file) {
      if (view.file !== '' && catalog?.files.length !== 0) throw unknownFile(view.file);
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
    const graphs = await this.fetchGraphs({ ...this.state, view }, signal);
    if (signal.aborted) return;
    // A graph that nothing is asked of begins with its suspect.
    const isFree = wanted.node === '' && wanted.look === null;
    const node = isFree ? initialSelection(this.state) : nodeIn(graphs, view);
    const name = node ? graphs[node.side]!.name(node.index) : '';
    const reached = { ...this.state.view, node: name, ...(node ? { side: node.side } : {}) };
    const unmet = isJump ? [] : unmetIn(isFree ? { ...wanted, node: name } : wanted, reached);
    this.store.update({
      ...{ ...selection(node), graphs, busy: null, unmet },
      view: reached,
    });
    this.finding.run();
    await this.loadDetail();
    void loadMeasures(this.store, this.fetch, signal);
  }

  private async loadDetail(): Promise<void> {
    const { graphs, selected, view } = this.state;
    const graph = selected && graphs?.[selected.side];
    this.loadingDetail.abort();
    if (!graph) return;
    this.loadingDetail = new AbortController();
    const { signal } = this.loadingDetail;
    const { file, step, rank } = view;
    const place = { file, step, rank, side: selected.side, index: selected.index };
    try {
      // The node is shown first: tables of details would keep the frame waiting that shows it.
      const [detail] = await Promise.all([ask(this.fetch, 'node', place, signal), drawn()]);
      if (signal.aborted) return;
      if (detail.revision !== graph.revision) this.store.update({ ...NO_DETAIL, news: 'changed' });
      else this.store.update({ ...NO_DETAIL, detail });
    } catch (error) {
      if (!signal.aborted) this.store.update({ ...NO_DETAIL, detailProblem: asProblem(error) });
    }
  }

  private isSelected(node: NodeRef | null): boolean {
    const { selected } = this.state;
    return selected?.side === node?.side && selected?.index === node?.index;
  }

  /** Something to go back from; notes on what was shown before are void. */
  private jump(): Pick<AppState, 'jumps' | 'unmet'> {
    this.isWalking = false;
    return { jumps: this.state.jumps + 1, unmet: [] };
  }

  private async fetchGraphs(state: AppState, signal: AbortSignal): Promise<Graphs> {
    const { file, step, rank } = state.view;
    const key = { file, step, rank };
    const graphs = await Promise.all([
      fetchGraph(this.fetch, { ...key, side: Side.NPU }, signal),
      hasBench(state) ? fetchGraph(this.fetch, { ...key, side: Side.BENCH }, signal) : null,
    ]);
    const [npu, bench] = graphs;
    this.loaded = graphs;
    if (bench === null || bench.revision === npu.revision) return seen(graphs, this.state.view);
    throw new ProblemError('changed', `${file} was changed while it was read.`, 'Try again.');
  }

  private fail(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.store.update({ ...NOTHING_SHOWN, busy: null, problem: asProblem(error) });
  }
}

/** The graphs with or without what was matched by evidence alone. */
function seen(graphs: Graphs, { automatic }: ViewState): Graphs {
  if (automatic) return graphs;
  const [npu, bench] = graphs;
  return [npu.withoutAutomatic(), bench?.withoutAutomatic() ?? null];
}

/** How the graph is shown, not what. */
type Shown = Pick<
  ViewState,
  'sync' | 'only' | 'unified' | 'colours' | 'powers' | 'trail' | 'automatic' | 'tab' | 'trend'
>;

/** What was shown of the node before stays until the details of this one are there. */
function selection(selected: NodeRef | null) {
  if (selected === null) return { ...NO_DETAIL, selected };
  return { selected, picked: null, detailBusy: true, detailProblem: null };
}

function unknownFile(file: string): ProblemError {
  return new ProblemError(
    'unknown_file',
    `There is no file ${file} below the log directory.`,
    'Choose another file above, or look again.',
  );
}

const NO_DETAIL = { detail: null, detailBusy: false, detailProblem: null } as const;
