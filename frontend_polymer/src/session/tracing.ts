// Where the tensors of the selected node come from and go: asked for while somebody looks.

import { ask, type Fetch } from '../data/api';
import { asProblem } from '../data/problem';
import { Side, type FlowLink } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import type { AppState, Flow } from './app-state';
import type { Store } from './state';

export const FLOW_TAB = 'flow';

/** Keeps the flow of the selected node beside it, and finds the way upstream. */
export class Tracing {
  private asking = new AbortController();
  private key = '';

  constructor(
    private readonly store: Store<AppState>,
    private readonly fetch: Fetch,
  ) {
    store.subscribe((state, previous) => {
      const isOther = state.selected !== previous.selected || state.view !== previous.view;
      if (isOther || state.graphs !== previous.graphs) this.follow();
    });
  }

  /** The node that gave the selected one what is wrong, or its first input; null for none. */
  async upstream(): Promise<NodeRef | null> {
    const flow = await this.load();
    if (!flow) return null;
    const { trail } = flow.found;
    const before = trail.length > 1 ? trail.at(-2) : makersOf(flow)[0];
    return before ? { side: flow.node.side, index: before.index } : null;
  }

  /** Where what is wrong with the selected node began; null when nothing is wrong before it. */
  async origin(): Promise<NodeRef | null> {
    const flow = await this.load();
    const first = flow?.found.trail[0];
    return flow && first ? { side: flow.node.side, index: first.index } : null;
  }

  private follow(): void {
    const { view, graphs, selected } = this.store.state;
    const isLookedAt = view.tab === FLOW_TAB || view.trail;
    if (isLookedAt && graphs && selected) void this.load();
  }

  /** The flow of the selected node; null without one, and where it cannot be had. */
  private async load(): Promise<Flow | null> {
    const { view, graphs, selected, flow } = this.store.state;
    const graph = selected && graphs?.[selected.side];
    if (!selected || !graph) return null;
    const { file, step, rank } = view;
    const key = [file, step, rank, selected.side, selected.index, graph.revision].join('\n');
    if (key === this.key && flow) return flow;
    this.key = key;
    this.asking.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.store.update({ flow: null, flowProblem: '' });
    try {
      const place = { file, step, rank, side: selected.side, index: selected.index };
      const found = await ask(this.fetch, 'flow', place, signal);
      signal.throwIfAborted();
      const isOurs = found.revision === graph.revision;
      const result = isOurs ? { node: selected, found } : null;
      this.store.update({ flow: result });
      return result;
    } catch (error) {
      if (signal.aborted) return null;
      this.key = '';
      const { message, remedy } = asProblem(error);
      this.store.update({ flowProblem: `${message} ${remedy}` });
      return null;
    }
  }
}

/** Who made the inputs, in the order of the record. */
function makersOf({ found }: Flow): FlowLink[] {
  return found.tensors.flatMap(({ maker }) => (maker ? [maker] : []));
}

const NO_TRAIL = new Int32Array();

/** The nodes of the trail to the selected node, the first wrong one first. */
export function trailOf({ flow, selected, view }: AppState): Int32Array {
  const isShown = view.trail && flow && flow.node.index === selected?.index;
  if (!isShown || flow.node.side !== Side.NPU || selected.side !== Side.NPU) return NO_TRAIL;
  return Int32Array.from(flow.found.trail, ({ index }) => index);
}
