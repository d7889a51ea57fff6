// Confirming and rejecting what evidence alone has matched.

import { change } from '../../data/api';
import { asProblem } from '../../data/problem';
import { MatchAction } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf } from '../../session/app-state';
import type { Session } from '../../session/session';
import { messageOf } from './match-choices';
import { baseOf } from './match-request';

/** Judges the match of the selected node, shows the graphs as they are then; what came of it. */
export async function judge(session: Session, action: MatchAction, text: Texts): Promise<string> {
  const { state } = session;
  const { detail, view } = state;
  if (!fileOf(state)?.writable) return text.match.readOnly;
  if (!detail?.npu || !detail.bench) return text.match.nothing;
  const operation = {
    $typeName: 'msprobe.graph.v1.MatchOperation' as const,
    ...{ action, npu: detail.npu.index, bench: detail.bench.index },
    ...{ descendants: false, replace: false, twin: false, everywhere: false },
  };
  try {
    await change(session.fetch, 'match', {
      ...{ ...baseOf(state), step: view.step, rank: view.rank },
      ...{ dryRun: false, author: '', reason: '', operations: [operation] },
    });
    await session.reload();
    return action === MatchAction.CONFIRM ? text.match.confirmed : text.match.rejected;
  } catch (error) {
    if (asProblem(error).status === 409) await session.reload();
    return messageOf(error);
  }
}
