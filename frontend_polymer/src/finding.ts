import { fetchSearch } from './data/api';
import { asksForTensors, isEmptyFind, NO_FIND, searchQuery, type Find } from './find';
import { Side } from './generated/graph_pb';
import { hitsIn, noHits, stepInFile, stepInGraph, type FileHits, type Hits } from './hits';
import type { NodeRef } from './layout/hierarchy';
import { SIDES } from './layout/sides';
import { asProblem, type AppState } from './session';
import type { Store, ViewState } from './state';

export type NodePlace = Pick<ViewState, 'step' | 'rank' | 'side' | 'node'>;

/** Looks for nodes, here or in all steps and ranks, and walks through what was found. */
export class Finding {
  private searchingFile = new AbortController();
  private searchedFile = '';

  constructor(
    private readonly store: Store<AppState>,
    /** Shows a node of any step and rank. */
    private readonly goTo: (place: NodePlace) => void,
  ) {}

  /** Lists nodes to step through, in execution order. */
  list(hits: Omit<Hits, 'position' | 'sequence'>): void {
    this.searchingFile.abort();
    const sequence = hits.indices;
    this.store.update({ hits: { ...hits, sequence, position: -1 }, fileHits: null });
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
    const { find } = view;
    this.searchingFile.abort();
    if (isEmptyFind(find)) {
      const isOurs = hits?.source !== 'legend';
      this.store.update({ ...(isOurs ? { hits: null } : {}), fileHits: null, searching: false });
      return;
    }
    if (find.scope === 'file' || asksForTensors(find)) {
      void this.runInFile(find, fileHits);
      return;
    }
    const side = graphs?.[find.side] ? find.side : Side.NPU;
    const graph = graphs?.[side];
    this.store.update({
      ...{ fileHits: null, searching: false },
      ...(graph ? { hits: hitsIn(graph, find, side, view.micro) } : {}),
    });
  }

  private async runInFile(find: Find, listed: FileHits | null): Promise<void> {
    const { file, step, rank } = this.store.state.view;
    const place = find.scope === 'graph' ? { step, rank } : {};
    const query = { file, ...place, ...searchQuery(find) };
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
}
