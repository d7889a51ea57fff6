// Ways through the graph that commands and buttons take.

import { Side } from '../../generated/graph_pb';
import { texts } from '../../i18n';
import type { NodeRef } from '../../layout/hierarchy';
import { shownColouring } from '../../session/colours';
import { moduleAt } from '../../session/conditions';
import { searchBelow, type NodePlace } from '../../session/finding';
import type { Session } from '../../session/session';
import { back, visit } from '../../session/trail';
import { nextError, nextSuspect, placeOf, verdictOf } from '../../session/verdict';
import { firstError, leastError } from '../parts/first-error';

/** The viewer, as far as a walk needs it. */
export interface Walker {
  readonly session: Session;
  readonly goTo: (node: NodeRef) => void;
  readonly showNode: (place: NodePlace) => void;
  readonly focusGraph: () => void;
  readonly say: (message: string) => void;
}

export function goToFirstError({ session, goTo, focusGraph }: Walker): void {
  const graph = session.state.graphs?.[Side.NPU];
  const index = graph ? firstError(graph) : -1;
  if (index >= 0) goTo({ side: Side.NPU, index });
  focusGraph();
}

export function stepSuspect({ session, showNode, say }: Walker, direction: 1 | -1): void {
  const suspect = nextSuspect(session.state, direction);
  if (suspect) showNode(placeOf(suspect));
  else say(texts().verdict.noSuspect);
}

export function stepError({ session, goTo, focusGraph, say }: Walker, direction: 1 | -1): void {
  const { graphs, selected } = session.state;
  const graph = graphs?.[Side.NPU];
  if (!graph) return;
  const { grade } = shownColouring(session.state, graph);
  const index = nextError(graph, grade, selected, leastError(graph), direction);
  if (index >= 0) goTo({ side: Side.NPU, index });
  else say(texts().verdict.noError);
  focusGraph();
}

/** Shows the graph that was left for the overview, else the one that the verdict leads to. */
export function enterGraph(session: Session): Promise<void> {
  const { graphs, view } = session.state;
  const { step, rank } = graphs ? view : (verdictOf(session.state)?.suspects[0] ?? view);
  return session.enter(step, rank);
}

/** To who gave the selected node what is wrong, or at once to where that began. */
export async function goUpstream(
  { session, focusGraph, say }: Walker,
  isToOrigin: boolean,
): Promise<void> {
  const { tracing, state } = session;
  if (!state.selected) {
    say(texts().flow.nothing);
    return;
  }
  const node = await (isToOrigin ? tracing.origin() : tracing.upstream());
  const graph = node && session.state.graphs?.[node.side];
  const isHere = node?.index === session.state.selected?.index;
  if (!node || !graph) say(isToOrigin ? texts().flow.noOrigin : texts().flow.noMaker);
  else if (isHere) say(texts().flow.isOrigin);
  else {
    const { step, rank } = session.state.view;
    await visit(session, { step, rank, side: node.side, node: graph.name(node.index) });
  }
  focusGraph();
}

/** Back to where the last jump set out from. */
export async function goBack({ session, focusGraph, say }: Walker): Promise<void> {
  if (session.state.trail.length === 0) say(texts().back.none);
  else await back(session);
  focusGraph();
}

/** Everything below the selected node's module is listed; whether there is one. */
export function findBelow({ session, say }: Walker): boolean {
  const { selected, graphs } = session.state;
  const graph = selected && graphs?.[selected.side];
  const path = graph ? moduleAt(graph, selected.index) : '';
  if (!selected || path === '') {
    say(texts().find.belowWhat);
    return false;
  }
  searchBelow(session, selected.side, path);
  return true;
}
