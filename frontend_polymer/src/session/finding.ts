import { fetchIndices, fetchSearch, type Fetch } from '../data/api';
import type { Graph } from '../data/graph';
import { asProblem } from '../data/problem';
import {
  asksForDetails,
  asTyped,
  isEmptyFind,
  NO_FIND,
  searchOf,
  searchQuery,
  type Find,
} from './find';
import { Side } from '../generated/graph_pb';
import {
  hitsAmong,
  hitsIn,
  noHits,
  stepInFile,
  stepInGraph,
  type FileHits,
  type Hits,
} from './hits';
import type { NodeRef } from '../layout/hierarchy';
import { SIDES } from '../layout/sides';
import type { AppState } from './app-state';
import type { Store, ViewState } from './state';

export type NodePlace = Pick<ViewState, 'step' | 'rank' | 'side' | 'node'>;

/** Looks for nodes, here or in all steps and ranks, and walks through what was found. */
export class Finding {
  private asking = new AbortController();
  private searchedFile = '';
  /** What the server found last in one graph. */
  private answered: { readonly key: string; readonly indices: Int32Array } | null = null;

  constructor(
    private readonly store: Store<AppState>,
    private readonly fetch: Fetch,
    /** Shows a node of any step and rank. */
    private readonly goTo: (place: NodePlace) => void,
  ) {}

  /** Lists nodes to step through, in execution order. */
  list(hits: Omit<Hits, 'position' | 'sequence'>): void {
    this.asking.abort();
    const sequence = hits.indices;
    this.store.update({ hits: { ...hits, sequence, position: -1 }, fileHits: null });
  }

  /** Somebody is about to look for names here: what takes longest is done before he types. */
  prepare(): void {
    const { graphs, view } = this.store.state;
    const graph = graphs?.[view.find.side] ?? graphs?.[Side.NPU];
    if (graph && view.find.scope === 'graph') searchOf(graph);
  }

  /** Looks for something else, or elsewhere. */
  change(change: Partial<Find>): void {
    const { view } = this.store.state;
    this.store.update({ view: { ...view, find: { ...view.find, ...change } } });
    this.run();
  }

  clear(kept: Partial<Find> = {}): void {
    this.change({ ...NO_FIND, ...kept });
  }

  /** The next or previous hit, seen from the selected node, going round at the ends. */
  step(direction: 1 | -1): NodeRef | null {
    const { hits, fileHits, selected } = this.store.state;
    const position = fileHits
      ? stepInFile(fileHits, direction)
      : stepInGraph(hits, selected, direction);
    return position < 0 ? null : this.choose(position);
  }

  /** The hit at this place of the list; null when it is in another graph, which is opened. */
  choose(position: number): NodeRef | null {
    const { hits, fileHits } = this.store.state;
    if (!fileHits) {
      const index = hits?.sequence[position];
      if (!hits || index === undefined) return null;
      this.store.update({ hits: { ...hits, position } });
      return { side: hits.side, index };
    }
    const { result } = fileHits;
    this.store.update({ fileHits: { ...fileHits, position } });
    this.goTo({
      step: result.step[position]!,
      rank: result.rank[position]!,
      side: SIDES[result.side[position]!]!,
      node: result.name[position]!,
    });
    return null;
  }

  /** Looks again, after the graphs or what to look for have changed. */
  run(): void {
    const { graphs, view, hits, fileHits } = this.store.state;
    const find = asTyped(view.find);
    this.asking.abort();
    if (isEmptyFind(find)) {
      const isOurs = hits?.source !== 'legend';
      this.store.update({ ...(isOurs ? { hits: null } : {}), fileHits: null, searching: false });
      return;
    }
    if (find.scope === 'file') {
      void this.runInFile(find, fileHits);
      return;
    }
    const side = graphs?.[find.side] ? find.side : Side.NPU;
    const graph = graphs?.[side];
    if (graph && asksForDetails(find)) {
      void this.askInGraph(graph, { ...find, side });
      return;
    }
    this.store.update({
      ...{ fileHits: null, searching: false },
      ...(graph ? { hits: hitsIn(graph, find, side, view.micro) } : {}),
    });
  }

  private async runInFile(find: Find, listed: FileHits | null): Promise<void> {
    const query = { file: this.store.state.view.file, ...searchQuery(find) };
    const key = JSON.stringify(query);
    if (listed && this.searchedFile === key) return;
    await this.ask(find, async (signal) => {
      const result = await fetchSearch(this.fetch, query, signal);
      signal.throwIfAborted();
      this.searchedFile = key;
      return { fileHits: { result, position: -1 } };
    });
  }

  /** Only the server knows tensors and stacks; what it finds is marked and walked through like any hits. */
  private async askInGraph(graph: Graph, find: Find): Promise<void> {
    const { file, step, rank, micro } = this.store.state.view;
    const query = { ...searchQuery(find), file, step, rank, order: 'execution' };
    const key = JSON.stringify([graph.revision, query]);
    const list = (indices: Int32Array) => hitsAmong(graph, indices, find, micro);
    if (this.answered?.key === key) {
      const hits = list(this.answered.indices);
      this.store.update({ hits, fileHits: null, searching: false });
      return;
    }
    await this.ask(find, async (signal) => {
      const indices = await fetchIndices(this.fetch, query, graph, signal);
      signal.throwIfAborted();
      this.answered = { key, indices };
      return { hits: list(indices), fileHits: null };
    });
  }

  private async ask(
    find: Find,
    answer: (signal: AbortSignal) => Promise<Pick<Partial<AppState>, 'hits' | 'fileHits'>>,
  ): Promise<void> {
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.store.update({ hits: null, searching: true });
    try {
      this.store.update({ ...(await answer(signal)), searching: false });
    } catch (error) {
      if (signal.aborted) return;
      const { message, remedy } = asProblem(error);
      const hits = { ...noHits(find, find.side), failure: `${message} ${remedy}` };
      this.store.update({ searching: false, fileHits: null, hits });
    }
  }
}

/** Looks for everything below a module; what else is asked for stays. */
export function searchBelow(
  session: { readonly finding: Finding },
  side: Side,
  path: string,
): void {
  session.finding.change({ below: path, side, scope: 'graph' });
}

/** The hit to go to, seen from where one is; null for none in this graph. */
export type Step = (finding: Finding) => NodeRef | null;

/** Selects a node, or a hit; that it is the hit shown last is no second change to draw. */
export function selectAt(
  session: {
    readonly finding: Finding;
    readonly store: Store<AppState>;
    select(node: NodeRef): Promise<void>;
  },
  to: NodeRef | Step,
): NodeRef | null {
  return session.store.together(() => {
    const node = typeof to === 'function' ? to(session.finding) : to;
    if (node) void session.select(node);
    return node;
  });
}
