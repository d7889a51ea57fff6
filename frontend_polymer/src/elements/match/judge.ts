// Confirming and rejecting what evidence alone has matched or grouped.

import { change } from '../../data/api';
import { asProblem } from '../../data/problem';
import { MatchAction } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf } from '../../session/app-state';
import type { Session } from '../../session/session';
import { messageOf } from './match-choices';
import { baseOf } from './match-request';

/** Judges the match or group of the selected node, shows the graphs as they are then; the outcome. */
export async function judge(session: Session, action: MatchAction, text: Texts): Promise<string> {
  const { state } = session;
  const { detail, view } = state;
  if (!fileOf(state)?.writable) return text.match.readOnly;
  const group = detail?.group;
  // Any call of each side stands for their group.
  const npu = detail?.npu?.index ?? group?.npu[0];
  const bench = detail?.bench?.index ?? group?.bench[0];
  if (npu === undefined || bench === undefined) return text.match.nothing;
  const operation = {
    $typeName: 'msprobe.graph.v1.MatchOperation' as const,
    ...{ action, npu, bench },
    ...{ descendants: false, replace: false, twin: false, everywhere: false },
  };
  try {
    await change(session.fetch, 'match', {
      ...{ ...baseOf(state), step: view.step, rank: view.rank },
      ...{ dryRun: false, author: '', reason: '', operations: [operation] },
    });
    await session.reload();
    if (action === MatchAction.CONFIRM) return text.match.confirmed;
    return group ? text.match.groupRejected : text.match.rejected;
  } catch (error) {
    if (asProblem(error).status === 409) await session.reload();
    return messageOf(error);
  }
}
